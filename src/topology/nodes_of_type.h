#pragma once

#include "src/topology/node_type.h"

namespace stepcast::topology {

// Nodes of one type, one behind another in the order of ranks. A cluster of several kinds of nodes
// is several of them behind one another, below the switches of one fabric.
struct NodesOfType {
  const NodeType* type = nullptr;
  LinkSpec link{};  // NIC to switch, each direction; of a node that stands alone anything
  int nodes = 0;
};

}  // namespace stepcast::topology
