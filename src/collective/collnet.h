#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// CollNet: switches of the network add up and hand out (SHARP; src/device/all_reduce.h of
// NVIDIA/nccl, direct). The data is divided among the GPUs of a node: each collects its block from
// the others of its node, hands the sum to the switches, obtains the sum over all nodes and gives
// it to the others of its node. A node sends S into the network and receives S, whatever the number
// of nodes.
//
// Rank m g + h is head h of node m. The tree of switches is one participant, ranks(). Lanes of a
// rank: scatter (to the heads of its node), up (a head collects and hands over), down (a head
// receives and hands out), gather. All-reduce only.
class CollNet final : public StepList {
 public:
  struct Options {
    Bytes size;
    int nodes = 1;
    int ranks_per_node = 1;
    int channels = 1;
    int loops = 1;
  };
  explicit CollNet(const Options& options);

  std::int64_t StepsPerLoop(int worker) const override;
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  static constexpr int kScatter = 0;
  static constexpr int kUp = 1;
  static constexpr int kDown = 2;
  static constexpr int kGather = 3;

  int nodes_;
  int heads_;  // of a node
};

}  // namespace stepcast::collective
