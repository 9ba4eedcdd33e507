#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ListOptions {
  std::string what;  // models, topologies, gpus, frameworks, settings
  bool json = false;
};

// `stepcast list`: what can be named in a scenario, and on the command line.
Outcome List(const ListOptions& options);

}  // namespace stepcast::cli
