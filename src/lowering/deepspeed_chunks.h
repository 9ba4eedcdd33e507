#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/local_gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// DeepSpeed's stage 0 after backward (deepspeed/runtime/engine.py, allreduce_no_retain): gradients
// in registration order, in chunks that the tensor closes which takes one beyond 5e8 elements. Each
// is put together, cast to the type that is sent, divided, all-reduced, cast and copied back, all
// on the compute stream; those of experts behind the others, over the ranks that have the same
// (_reduce_non_expert_gradients, _reduce_expert_gradients).
namespace stepcast::lowering {

class ChunkedReduction {
 public:
  ChunkedReduction(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Prologue, for tensors whose gradients `communicator` adds up, if there is one. `ranks`: what
  // they are divided by, all data-parallel ranks.
  void AddChunks(Index communicator, std::int64_t ranks, std::span<const int> tensors);
  void Reduce(const LocalGradients& gradients);

 private:
  struct Chunk {
    Index communicator = program::kNone;
    Pieces pieces;  // of whole tensors
    Range flat;
    Range sent;  // in the type that is sent, where that is another
  };

  TrainingStep& step_;
  Operations& operations_;
  std::int64_t ranks_ = 1;
  std::vector<Chunk> chunks_;
};

}  // namespace stepcast::lowering
