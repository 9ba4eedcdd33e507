#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct TopologyShowOptions {
  std::string file;                   // topologies/*.yaml
  std::optional<std::int64_t> nodes;  // default: two with a fabric, else one
  bool dot = false;                   // Graphviz instead of text
  bool json = false;                  // one JSON document instead of text
  bool links = false;                 // what a collective puts on each link
  std::string op = "all_reduce";      // that collective
  std::string size = "1 GiB";         // and its size
};

Outcome TopologyShow(const TopologyShowOptions& options);

}  // namespace stepcast::cli
