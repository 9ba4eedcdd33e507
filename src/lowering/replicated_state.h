#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/parameter_update.h"
#include "src/lowering/training_step.h"

// What a rank keeps of a model of which every rank has a copy: all parameters and all of the
// optimizer's arrays, in registration order.
namespace stepcast::lowering {

class ReplicatedState {
 public:
  ReplicatedState(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Describes and allocates both.
  void WritePrologue();

  Range Parameter(int tensor) const {
    return parameters_.Part(offsets_[tensor], step_.model().tensors[tensor].elements);
  }
  void AppendUpdate(int tensor, const Range& gradient, ParameterUpdate& update) const;
  // Of all tensors, in registration order.
  void Write(ParameterUpdate& update, GradientClipping& clipping) const;

 private:
  UpdatedTensors Updated() const;

  TrainingStep& step_;
  Operations& operations_;
  Range parameters_, optimizer_;
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> offsets_;  // of parameters, by tensor
};

}  // namespace stepcast::lowering
