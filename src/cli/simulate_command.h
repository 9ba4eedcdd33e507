#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string network;           // "analytic", "flow", "message"; empty: as the scenario says
  bool json = false;
  std::string trace;     // file to write; empty: none
  std::string report;    // HTML page to write; empty: none
  bool program = false;  // print the step program instead of the forecast
};

Outcome Simulate(const SimulateOptions& options);

}  // namespace stepcast::cli
