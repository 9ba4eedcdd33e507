#pragma once

#include "src/lowering/program_builder.h"
#include "src/lowering/training_step.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// Tensors that layers of the first and the last stage of a pipeline share: embeddings that are tied
// to the head. Each of the two keeps a copy; their gradients are added up over the two before the
// update, so that the copies stay the same (Megatron-LM's embedding group,
// core/distributed/finalize_model_grads.py). Without such tensors all calls do nothing.
class TiedGradients {
 public:
  explicit TiedGradients(TrainingStep& step) : step_(step), builder_(step.builder()) {}

  // Whether the gradients of the tensor, of this stage's model, are added up.
  bool Has(int tensor) const;
  // Whether this stage counts the tensor where all parameters are counted once.
  bool Counts(int tensor) const { return step_.stage().first() || !Has(tensor); }

  void WritePrologue();
  // Adds the gradients of all of them up, on `stream`, when all that has been issued on the compute
  // stream is done. `place_of`: (tensor) where its gradients of the whole step are.
  template <typename PlaceOf>
  void AddUp(StreamId stream, const PlaceOf& place_of) {
    for (const int tensor : step_.stage().tied_across()) AddUpOne(stream, tensor, place_of(tensor));
  }

 private:
  void AddUpOne(StreamId stream, int tensor, const program::Elements& place);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Index communicator_ = program::kNone;
  Index ready_ = program::kNone;  // event
};

}  // namespace stepcast::lowering
