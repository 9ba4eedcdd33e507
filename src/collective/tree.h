#pragma once

#include <array>
#include <vector>

#include "src/collective/step_list.h"

namespace stepcast::collective {

// One node of a tree over ranks or over cluster nodes.
struct TreeNode {
  int parent = kNobody;  // the root has none
  std::vector<int> children;
};
// [number]: the node with that number. Every node is reached from the root.
using Tree = std::vector<TreeNode>;

// Two trees, each for half of the data. Almost every rank is an inner node in at most one of them
// (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan"). Tree 0 has root 0 above a binary tree of 1 to n - 1 in ascending order, in which odd
// numbers are leaves. Tree 1 is its mirror image for even n, and shifted by one for odd n
// (src/graph/trees.cc of NVIDIA/nccl). Depth: ceil(log2 n).
std::array<Tree, 2> DoubleBinaryTree(int n);

// Two such trees with one common root, for broadcast and reduce.
std::array<Tree, 2> RootedDoubleBinaryTree(int n, int root);

// Reduction up a tree and broadcast down again, with one worker for each direction. The root starts
// the broadcast in its reducing worker. Channel c uses trees[c mod the number of trees].
//   all-reduce  up and down;     broadcast  down only;     reduce  up only
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
  // The lane in which a node sends to its children.
  int DownLaneOf(const TreeNode& node) const;

  std::vector<Tree> trees_;
};

}  // namespace stepcast::collective
