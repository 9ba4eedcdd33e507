#pragma once

#include <string_view>

#include "src/scenario/document.h"

namespace stepcast::scenario {

// Where a dotted path like "node.links[3].bandwidth" leads below a node: to the value, or to the
// last thing on the way that is there.
struct Followed {
  Node last;
  bool whole = true;
};
Followed Follow(Node node, std::string_view path);

}  // namespace stepcast::scenario
