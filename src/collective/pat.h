#pragma once

#include "src/collective/step_list.h"

namespace stepcast::collective {

// PAT, "parallel aggregated trees" (NCCL 2.23, src/include/collectives.h of NVIDIA/nccl; for one
// rank a node): every rank's block travels along a binomial tree of its own, the trees of all ranks
// at once, and what two ranks have for each other in a step travels as one message. ceil(log2 n)
// steps; every block reaches every other rank once, so the bytes are those of the ring.
//
// All-gather: distances halve. At distance D a rank sends to the rank D further what that has not
// seen: the blocks of the ranks 0, 2D, 4D, ... before itself. Reduce-scatter: the same trees
// backwards, distances double.
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

  // Steps that follow one another: ceil(log2 n).
  int rounds() const { return rounds_; }

  std::int64_t StepsPerLoop(int) const override { return 2 * rounds_ + 1; }
  bool LoopsOverlap() const override { return false; }
  int StageOf(int from_worker, int to_worker) const override;
  Step At(int worker, std::int64_t i) const override;

 private:
  int rounds_;
};

}  // namespace stepcast::collective
