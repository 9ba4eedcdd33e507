#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"
#include "src/validate/execution.h"

// Runs a scenario's step program on hardware: what `execute` and `validate` have in common.
namespace stepcast::cli {

struct HardwareOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string backend;           // "host" or "cuda"
  int steps = 5;                 // that are measured
  int warmup = 2;
  bool barrier = false;  // as if the scenario said training.step_barrier
  bool graph = false;
  bool caching_pool = false;     // buffers as PyTorch's caching allocator places them
  bool check = false;            // small-integer gradients; compare the parameters afterwards
  std::string timeout = "60 s";  // a hang is when no operation finishes for that long
  Diagnostics faults;            // of the command line, found before; reported with the others
};

struct HardwareReport {
  // Called at rank 0, before anything runs. An outcome is the end.
  std::function<std::optional<Outcome>(const scenario::Scenario&)> prepare;
  // Called at rank 0, when all ranks have measured.
  std::function<Outcome(const scenario::Scenario&, const validate::Execution&)> write;
};

// Finds this process's launcher by the environment (runtime/launch.h). Under a launcher each
// process is one rank, rank 0 alone has something to say, and all exit with its status; without one
// this process runs all ranks of the plan as threads. A run that fails ends the process from within
// (runtime/watch.h).
Outcome RunOnHardware(const HardwareOptions& options, const HardwareReport& report);

}  // namespace stepcast::cli
