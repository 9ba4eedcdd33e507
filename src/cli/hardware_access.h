#pragma once

#include <functional>
#include <string>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/cli/work_command.h"

// The commands that need hardware or several processes, which two programs share: stepcast-hardware
// runs them, and stepcast, which links neither MPI nor a backend, starts stepcast-hardware for them
// (hand_over.h).
namespace stepcast::cli {

struct HardwareAccess {
  std::function<Outcome(const ExecuteOptions&)> execute;
  std::function<Outcome(const ValidateOptions&)> validate;
  std::function<Outcome(const CalibrateOptions&)> calibrate;
  // For sweeps and searches.
  RunWork run_work;
  // What --version says of the backends: "host, cuda, MPI".
  std::function<std::string()> backends;
};

}  // namespace stepcast::cli
