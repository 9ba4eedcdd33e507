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
};

Outcome TopologyShow(const TopologyShowOptions& options);

}  // namespace stepcast::cli
