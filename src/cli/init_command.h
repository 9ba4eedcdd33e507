#pragma once

#include <string>
#include <vector>

#include "src/cli/foreign_scenario.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

struct InitOptions {
  ScenarioFiles files;
  std::vector<std::string> set;  // "KEY=VALUE"
  std::string output;            // file to write; empty: stdout
  bool force = false;            // replace that file
};

// `stepcast init`: a scenario from other programs' configurations. The answer is no where the
// scenario states a plan that cannot be forecast; it is written all the same.
Outcome Init(const InitOptions& options);

}  // namespace stepcast::cli
