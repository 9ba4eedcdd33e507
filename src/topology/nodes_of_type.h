#pragma once

#include <optional>

#include "src/topology/node_type.h"

namespace stepcast::topology {

// Nodes of one type, one behind another in the order of ranks. A cluster of several kinds of nodes
// is several of them behind one another, below the switches of one fabric.
struct NodesOfType {
  const NodeType* type = nullptr;
  LinkSpec link{};  // NIC to switch, each direction; of a node that stands alone anything
  int nodes = 0;
  std::optional<int> ranks_per_node{};  // on the first GPUs of each; none: on all of them

  int gpus_with_ranks() const { return ranks_per_node.value_or(type->Count(DeviceKind::kGpu)); }
};

}  // namespace stepcast::topology
