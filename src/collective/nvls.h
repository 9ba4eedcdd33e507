#pragma once

#include <vector>

#include "src/collective/step_list.h"
#include "src/collective/tree.h"

namespace stepcast::collective {

// NVLink SHARP: an NVSwitch sums the data of a node's GPUs, and copies one GPU's data to all GPUs
// (src/device/all_reduce.h of NVIDIA/nccl, runNvls). Each GPU of a node is the head of one block of
// the data. The switch sums a block over the node and sends the sum to the block's head. Along a
// tree (NVLSTree), heads of the same block on other nodes add their sums. The head sends the result
// to the switch, which copies it to all GPUs.
//
// A rank sends (1 + 1/g) S to the switch: its contribution, and its block of the result. (A ring
// sends 2 (n - 1) / n x S.) With g ranks per node, rank m g + h is head h of node m. Participant
// ranks() + m is node m's switch. A rank has these lanes:
//
//   scatter: sends the rank's contribution for every head to the switch.
//   up: a head receives the sum from the switch and from the tree's children, and sends the sum to
//     the head's parent.
//   down: a head receives the result from the tree's parent, and sends the result to children and
//     to the switch.
//   gather: receives every head's result from the switch.
//
// At the tree's root, the head sends the result from its `up` lane. The switch has one lane that
// adds and one lane that copies.
class Nvls final : public StepList {
 public:
  struct Options {
    // All-reduce or, within one node, also reduce-scatter (lanes scatter and up) or all-gather
    // (lanes down and gather).
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Bytes size;
    int nodes = 1;
    int ranks_per_node = 1;
    std::vector<Tree> trees;  // trees over nodes; channel c uses trees[c mod trees.size()]
    int channels = 1;
    int loops = 1;
  };
  explicit Nvls(Options options);

  std::int64_t StepsPerLoop(int worker) const override;
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  static constexpr int kScatter = 0;
  static constexpr int kUp = 1;
  static constexpr int kDown = 2;
  static constexpr int kGather = 3;
  static constexpr int kAdd = 0;   // lane of the switch
  static constexpr int kCopy = 1;  // lane of the switch

  const TreeNode& NodeOf(int channel, int node) const;
  int HeadOf(int node, int head) const { return node * heads_ + head; }
  int SwitchOf(int node) const { return ranks() + node; }
  bool TurnsInUp(const TreeNode& node) const {
    return node.parent == kNobody && kind() == CollectiveKind::kAllReduce;
  }
  Step OfSwitch(int channel, int node, int lane, std::int64_t step) const;
  Step OfHead(int channel, int node, int head, int lane, std::int64_t step) const;

  int heads_;  // heads per node
  std::vector<Tree> trees_;
};

}  // namespace stepcast::collective
