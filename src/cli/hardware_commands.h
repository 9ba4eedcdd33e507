#pragma once

#include <functional>
#include <optional>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

namespace stepcast::cli {

// Measures the hardware on all ranks. Ranks are processes started by a launcher, or threads of this
// process. Only rank 0 writes the profile and prints output.
Outcome Calibrate(const CalibrateOptions& options);

// Runs the command on all cores. If mpirun (or srun with PMI) started several ranks, the ranks
// share the work. Otherwise, threads of this process share the work. If a rank dies, hangs or
// fails, all ranks end with a message that contains the failed rank (runtime/watch.h).
Outcome RunDistributed(const WorkCommand& command);

Outcome Execute(const ExecuteOptions& options);

// Forecasts the scenario and executes it. The exit status is kAnswerIsNo if the step times differ
// by more than `within`.
Outcome Validate(const ValidateOptions& options);

// The functions in which `execute` and `validate` differ. RunOnHardware calls these functions.

struct HardwareReport {
  // Called on rank 0 before the step program runs. Returns an outcome to end the command.
  std::function<std::optional<Outcome>(const scenario::Scenario&)> prepare;
  // Returns the command's outcome. Called on rank 0 after all ranks have finished.
  std::function<Outcome(const scenario::Scenario&, const validate::Execution&)> write;
};

// Runs a scenario's step program on hardware. Detects the launcher from the environment
// (messaging/launch.h). Under a launcher, each process is one rank, only rank 0 prints output, and
// all processes exit with rank 0's status. Without a launcher, this process runs all ranks of the
// plan as threads. A failed run ends the process (runtime/watch.h).
Outcome RunOnHardware(const HardwareOptions& options, const HardwareReport& report);

}  // namespace stepcast::cli
