#pragma once

#include <vector>

#include "src/nccl/graph.h"

namespace stepcast::nccl {

// The tree that one compute channel reduces and broadcasts over.
struct Tree {
  struct Links {
    int parent = -1;
    std::vector<int> children;  // at most three: the next GPU of the chain, and two other nodes
  };
  std::vector<Links> ranks;  // [node x GPUs per node + GPU]
};

// Inside a node the GPUs of a channel form a chain; across nodes the first of them is joined to the
// parent, and children hang on the first or the second as the pattern says (graph.h). Of n search
// channels, compute channel c < n takes tree 0 of node_trees.h and c + n tree 1; further ones
// repeat these. Returns 2 n trees (NVIDIA/nccl, src/graph/connect.cc).
std::vector<Tree> MakeTrees(const Graph& tree, int nodes);

// How deep NCCL takes such a tree to be when it sizes chunks: GPUs per node - 1 + floor(log2
// nodes).
int TreeDepth(int ranks_per_node, int nodes);

}  // namespace stepcast::nccl
