#pragma once

#include <string>

#include "src/cli/hardware_run.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ValidateOptions {
  HardwareOptions hardware;
  bool json = false;
  std::string report;          // HTML page to write; empty: none
  std::string trace;           // file to write; empty: none
  std::string within = "10%";  // of the measured step time
};

// Forecasts the scenario and executes it. The answer is no when the step times differ by more.
Outcome Validate(const ValidateOptions& options);

}  // namespace stepcast::cli
