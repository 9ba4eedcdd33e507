#pragma once

#include <functional>
#include <optional>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

// Runs a scenario's step program on hardware: what `execute` and `validate` have in common.
namespace stepcast::cli {

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
