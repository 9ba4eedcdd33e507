#pragma once

#include <functional>
#include <optional>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

namespace stepcast::cli {

// Measures on all ranks: those that a launcher started, or threads of this process. Rank 0 writes
// the profile, and has something to say.
Outcome Calibrate(const CalibrateOptions& options);

// On all cores of all ranks if mpirun (or srun with PMI) started several, else on the threads of
// this process. A rank that dies, hangs or fails ends all of them with a sentence that names it
// (runtime/watch.h).
Outcome RunDistributed(const WorkCommand& command);

Outcome Execute(const ExecuteOptions& options);

// Forecasts the scenario and executes it. The answer is no when the step times differ by more.
Outcome Validate(const ValidateOptions& options);

// Runs a scenario's step program on hardware: what `execute` and `validate` have in common.

struct HardwareReport {
  // Called at rank 0, before anything runs. An outcome is the end.
  std::function<std::optional<Outcome>(const scenario::Scenario&)> prepare;
  // Called at rank 0, when all ranks have measured.
  std::function<Outcome(const scenario::Scenario&, const validate::Execution&)> write;
};

// Finds this process's launcher by the environment (messaging/launch.h). Under a launcher each
// process is one rank, rank 0 alone has something to say, and all exit with its status; without one
// this process runs all ranks of the plan as threads. A run that fails ends the process from within
// (runtime/watch.h).
Outcome RunOnHardware(const HardwareOptions& options, const HardwareReport& report);

}  // namespace stepcast::cli
