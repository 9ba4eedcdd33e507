#pragma once

#include <array>
#include <vector>

#include "src/collective/step_list.h"

namespace stepcast::collective {

// A node of a tree over ranks or over cluster nodes.
struct TreeNode {
  int parent = kNobody;  // kNobody for the root
  std::vector<int> children;
};
// The nodes of a tree, indexed by rank or by cluster node. Every node is a descendant of the root.
using Tree = std::vector<TreeNode>;

// Returns two trees, each for half of the data. Almost every rank is an inner node in at most one
// tree (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan"). The trees are the same as in NCCL (src/graph/trees.cc of NVIDIA/nccl):
//   tree 0: the root is 0. Below the root is a binary tree of 1 to n - 1 in ascending order, in
//     which odd numbers are leaves.
//   tree 1: the mirror image of tree 0 for even n, or tree 0 shifted by one for odd n.
// The depth is ceil(log2 n).
std::array<Tree, 2> DoubleBinaryTree(int n);

// Returns two trees like DoubleBinaryTree, but both with the root `root`, for broadcast and reduce.
std::array<Tree, 2> RootedDoubleBinaryTree(int n, int root);

// Reduction up a tree and broadcast down the same tree, with one worker per direction. At the root,
// the reducing worker starts the broadcast. Channel c uses trees[c mod the number of trees].
// All-reduce uses both directions, broadcast only down, and reduce only up.
class TreeSteps final : public StepList {
 public:
  struct Options {
    CollectiveKind kind = CollectiveKind::kAllReduce;  // all-reduce, broadcast or reduce
    Bytes size;
    std::vector<Tree> trees;
    int channels = 2;
    int loops = 1;
  };
  explicit TreeSteps(Options options);

  std::int64_t StepsPerLoop(int worker) const override;
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  static constexpr int kUp = 0;
  static constexpr int kDown = 1;

  const TreeNode& NodeOf(int worker) const;
  // Returns the lane in which a node sends to its children.
  int DownLaneOf(const TreeNode& node) const;

  std::vector<Tree> trees_;
};

}  // namespace stepcast::collective
