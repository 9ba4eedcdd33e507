#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// All-to-all along rails (NCCL's PXN, src/graph/paths.cc of NVIDIA/nccl). Data for place h of
// another node first goes over NVLink to place h of the sender's own node. The rank there sends it
// on as one message through its own NIC. Messages between nodes are g times as long and g times
// fewer, and no message leaves its rail.
//
// Rank m g + h has place h in node m. The lanes of a rank are send (to the rank's node), forward
// (collects data for the rank's rail and sends the data to other nodes) and receive.
class NodeAware final : public StepList {
 public:
  struct Options {
    Bytes size;  // sent by one rank, counted as in nccl-tests for an all-to-all
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
