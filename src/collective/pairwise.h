#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// Messages between every pair of ranks, as in NCCL: one worker sends, and another worker receives
// (src/enqueue.cc of NVIDIA/nccl). A rank sends to the ranks after it in order, so that every rank
// receives from one rank at a time.
//
//   all-to-all: each rank has a block for each rank.
//   scatter: the root has a block for each rank.
//   gather: the reverse of scatter.
//   send_recv: each rank sends S to the next rank and receives S from the previous rank, as in the
//     sendrecv test of nccl-tests. A message in only one direction is a broadcast over two ranks.
class Pairwise final : public StepList {
 public:
  struct Options {
    CollectiveKind kind = CollectiveKind::kAllToAll;
    Bytes size;
    int ranks = 1;
    int root = 0;  // only for scatter and gather
    int channels = 1;
    int loops = 1;
  };
  explicit Pairwise(const Options& options);

  std::int64_t StepsPerLoop(int worker) const override;
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  static constexpr int kSend = 0;
  static constexpr int kReceive = 1;

  int root_;
};

}  // namespace stepcast::collective
