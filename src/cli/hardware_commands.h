#pragma once

#include <functional>
#include <optional>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

namespace stepcast::cli {

// Measures on all ranks: processes started by a launcher, or threads of this process. Only rank 0
// writes the profile and has output.
Outcome Calibrate(const CalibrateOptions& options);

// Runs on all cores of all ranks if mpirun (or srun with PMI) started several, otherwise on the
// threads of this process. A rank that dies, hangs or fails ends all ranks with a sentence that
// names it (runtime/watch.h).
Outcome RunDistributed(const WorkCommand& command);

Outcome Execute(const ExecuteOptions& options);

// Forecasts the scenario and executes it. Status kAnswerIsNo if the step times differ by more than
// `within`.
Outcome Validate(const ValidateOptions& options);

// Runs a scenario's step program on hardware, for `execute` and `validate`.

struct HardwareReport {
  // Called at rank 0 before anything runs. An outcome ends the command.
  std::function<std::optional<Outcome>(const scenario::Scenario&)> prepare;
  // Called at rank 0 after all ranks have measured.
  std::function<Outcome(const scenario::Scenario&, const validate::Execution&)> write;
};

// Finds this process's launcher from the environment (messaging/launch.h). Under a launcher each
// process is one rank, only rank 0 has output, and all exit with its status. Without one, this
// process runs all ranks of the plan as threads. A failed run ends the process (runtime/watch.h).
Outcome RunOnHardware(const HardwareOptions& options, const HardwareReport& report);

}  // namespace stepcast::cli
