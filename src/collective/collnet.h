#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// CollNet all-reduce (direct), in which network switches reduce and broadcast (SHARP;
// src/device/all_reduce.h of NVIDIA/nccl). Each GPU of a node is the head of one block of the data.
// A head sums its block over the GPUs of its node and sends the sum to the switches. The head then
// receives the sum over all nodes and sends this sum to the GPUs of its node. Each node sends and
// receives S bytes over the network, for any number of nodes.
//
// With g ranks per node, rank m g + h is head h of node m. Participant ranks() is the tree of
// switches. A rank has these lanes:
//
//   scatter: sends to the heads of its node.
// up: a head collects from its node and sends to the switch.
// down: a head receives from the switch and sends to its node.
//   gather: receives the results.
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
  int heads_;  // heads per node
};

}  // namespace stepcast::collective
