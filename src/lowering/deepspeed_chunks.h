#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/local_gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// DeepSpeed's stage 0 after backward (deepspeed/runtime/engine.py, allreduce_no_retain): gradients
// in registration order, in chunks that the tensor closes which takes one beyond 5e8 elements. Each
// is put together, cast to the type that is sent, divided, all-reduced, cast and copied back, all
// on the compute stream.
namespace stepcast::lowering {

class ChunkedReduction {
 public:
  ChunkedReduction(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Prologue.
  void AddChunks(Index communicator, std::int64_t ranks);
  void Reduce(const LocalGradients& gradients);

 private:
  struct Chunk {
    Pieces pieces;  // of whole tensors
    Range flat;
    Range sent;  // in the type that is sent, where that is another
  };

  TrainingStep& step_;
  Operations& operations_;
  Index communicator_ = program::kNone;
  std::int64_t ranks_ = 1;
  std::vector<Chunk> chunks_;
};

}  // namespace stepcast::lowering
