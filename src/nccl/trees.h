#pragma once

#include <vector>

#include "src/nccl/graphs.h"

namespace stepcast::nccl {

// A binary tree over the nodes of a communicator.
struct NodeTree {
  struct Links {
    int parent = -1;
    int child0 = -1;  // with a smaller number than the node in tree 0
    int child1 = -1;

    friend bool operator==(const Links&, const Links&) = default;
  };
  std::vector<Links> nodes;

  int root() const;
  // Whether `node` is the first child of its parent.
  bool IsChild0(int node) const;
};

// Two trees, each for half of the data, in which every node is an inner one at most once, so that
// none has more than two children in both together. (Where the number of nodes is odd, node 0 may
// be an inner one twice, with one child each.) (NVIDIA/nccl, src/graph/trees.cc; Sanders, Speck and
// Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan").
//
// Tree 0: let b be the lowest bit set in r. Node 0 is the root, with the largest power of two below
// the number of nodes as its one child. The parent of r is r with bit b cleared and bit 2b set, or
// just r with bit b cleared where that does not exist. Children are r - b/2 and r + b/2, the offset
// of the latter halved until it exists.
// Tree 1: tree 0 with nodes counted backwards where their number is even, one further where odd.
//
//   0---------------8
//            ______/ \______
//           4               12
//         /   \            /  .
//       2       6       10     .
//      / \     / \     /  \     .
//     1   3   5   7   9   11    13
struct NodeTrees {
  NodeTree tree0;
  NodeTree tree1;
};
NodeTrees MakeNodeTrees(int nodes);

// The tree that one compute channel reduces and broadcasts over.
struct Tree {
  struct Links {
    int parent = -1;
    std::vector<int> children;  // at most three: the next GPU of the chain, and two other nodes
  };
  std::vector<Links> ranks;  // [node x GPUs per node + GPU]
};

// Inside a node the GPUs of a channel form a chain; across nodes the first of them is joined to the
// parent, and children hang on the first or the second as the pattern says (graphs.h). Of n search
// channels, compute channel c < n takes tree 0 of trees.h and c + n tree 1; further ones
// repeat these. Returns 2 n trees (NVIDIA/nccl, src/graph/connect.cc).
std::vector<Tree> MakeTrees(const Graph& tree, int nodes);

// How deep NCCL takes such a tree to be when it sizes chunks: GPUs per node - 1 + floor(log2
// nodes).
int TreeDepth(int ranks_per_node, int nodes);

}  // namespace stepcast::nccl
