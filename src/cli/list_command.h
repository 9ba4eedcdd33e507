#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ListOptions {
  std::string what;  // models, topologies, gpus, frameworks, settings
  bool json = false;
};

// `stepcast list`: what can be named in a scenario, and on the command line.
Outcome List(const ListOptions& options);

// What shells offer for values, by the type of the option (completion.h): keys with an equals sign
// behind them, and the models and topologies that come along.
std::map<std::string, std::vector<std::string>> NamesByType();

}  // namespace stepcast::cli
