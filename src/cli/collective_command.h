#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct CollectiveOptions {
  std::string scenario;
  std::vector<std::string> set;
  std::string op = "all_reduce";
  std::string from = "1 KiB";  // sizes double from here ...
  std::string to = "8 GiB";    // ... to here
  std::string group;           // of the plan; empty: ranks and nodes
  std::optional<int> ranks;    // default: all of the nodes
  std::optional<int> nodes;    // default: all of the cluster
  bool siblings = false;       // all groups like it at the same time
  std::string network;         // "analytic", "flow", "message"; empty: as the scenario says
  bool json = false;
  bool csv = false;
};

Outcome Collective(const CollectiveOptions& options);

}  // namespace stepcast::cli
