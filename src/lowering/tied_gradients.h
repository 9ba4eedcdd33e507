#pragma once

#include <vector>

#include "src/lowering/program_builder.h"
#include "src/lowering/training_step.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// Tensors of which several ranks of a copy of the model keep a copy each, and a part of their
// gradients. Those are added up before the update, so that the copies stay the same (Megatron-LM,
// core/distributed/finalize_model_grads.py):
//  * embeddings that are tied to the head, over the first and the last stage of a pipeline;
//  * with sequence parallelism, what is applied to a rank's part of the tokens, over the tensor-
//    parallel ranks: laid into one buffer, and taken out again.
// Without such tensors all calls do nothing.
class TiedGradients {
 public:
  explicit TiedGradients(TrainingStep& step) : step_(step), builder_(step.builder()) {}

  // Whether the gradients of the tensor, of this stage's model, are added up over stages.
  bool Has(int tensor) const;
  // Whether this rank counts the tensor where all parameters are counted once.
  bool Counts(int tensor) const;

  void WritePrologue();
  // Adds the gradients of all of them up, on `stream`, when all that has been issued on the compute
  // stream is done. `place_of`: (tensor) where its gradients of the whole step are.
  template <typename PlaceOf>
  void AddUp(StreamId stream, const PlaceOf& place_of) {
    std::vector<Part> parts;
    for (const int tensor : of_part_of_tokens_) parts.push_back({tensor, place_of(tensor)});
    if (!parts.empty()) AddUpParts(parts);
    for (const int tensor : step_.stage().tied_across()) AddUpOne(stream, tensor, place_of(tensor));
  }

 private:
  struct Part {
    int tensor = 0;
    program::Elements place{};
  };
  void AddUpParts(const std::vector<Part>& parts);
  void AddUpOne(StreamId stream, int tensor, const program::Elements& place);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Index communicator_ = program::kNone;
  Index ready_ = program::kNone;        // event
  std::vector<int> of_part_of_tokens_;  // tensors
  Index flat_ = program::kNone;         // buffer
  Index tensor_communicator_ = program::kNone;
};

}  // namespace stepcast::lowering
