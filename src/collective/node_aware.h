#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// All-to-all along rails (NCCL's PXN, src/graph/paths.cc of NVIDIA/nccl). Data for local rank h of
// another node are first sent over NVLink to local rank h of the sender's node. That rank then
// sends the data of its complete node as one message through its own NIC. With g ranks per node,
// messages between nodes are g times longer and g times fewer, and remain on one rail.
//
// With g ranks per node, rank m g + h is local rank h of node m. A rank has three lanes: send (to
// its own node), forward (collects data for its rail and sends them to other nodes) and receive.
class NodeAware final : public StepList {
 public:
  struct Options {
    Bytes size;  // sent by one rank, defined as in nccl-tests for an all-to-all
    int nodes = 1;
    int ranks_per_node = 1;
    int channels = 1;
    int loops = 1;
  };
  explicit NodeAware(const Options& options);

  std::int64_t StepsPerLoop(int worker) const override;
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  static constexpr int kSend = 0;
  static constexpr int kForward = 1;
  static constexpr int kReceive = 2;

  int BlockOf(int from, int to) const { return from * ranks() + to; }

  int nodes_;
  int group_;  // ranks per node
};

}  // namespace stepcast::collective
