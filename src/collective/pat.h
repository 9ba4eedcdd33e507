#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// PAT, "parallel aggregated trees" (NCCL 2.23, src/include/collectives.h of NVIDIA/nccl), for one
// rank per node. Every rank's block is sent along its own binomial tree. All trees run at the same
// time, in ceil(log2 n) steps. In each step, all data from one rank to another rank are a single
// message. A rank sends as many bytes as in a ring, because every block reaches every other rank
// once.
//
// All-gather: distances halve from step to step. At distance D, a rank sends to the rank D
// positions later. The message has the blocks of the ranks 0, 2D, 4D, ... positions before the
// sender. Reduce-scatter uses the same trees in reverse, and distances double.
class Pat final : public StepList {
 public:
  struct Options {
    CollectiveKind kind = CollectiveKind::kAllGather;  // all-gather or reduce-scatter
    Bytes size;
    int ranks = 1;
    int channels = 1;
    int loops = 1;
  };
  explicit Pat(const Options& options);

  // Returns the number of steps, ceil(log2 n).
  int rounds() const { return rounds_; }

  std::int64_t StepsPerLoop(int) const override { return 2 * rounds_ + 1; }
  bool LoopsOverlap() const override { return false; }
  int StageOf(int from_worker, int to_worker) const override;
  Step At(int worker, std::int64_t i) const override;

 private:
  int rounds_;
};

}  // namespace stepcast::collective
