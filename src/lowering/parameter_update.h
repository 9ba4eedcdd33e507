#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/framework_update.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/range.h"

// The end of a step: gradients are clipped, if the plan asks for it, and an optimizer of PyTorch
// updates what this rank has of the parameters. What it works on is put together first.
namespace stepcast::lowering {

class ParameterUpdate {
 public:
  explicit ParameterUpdate(TrainingStep& step) : ParameterUpdate(step, step.plan().training) {}
  // `training`: what the optimizer works on, as opposed to the plan's types.
  ParameterUpdate(TrainingStep& step, const plan::Training& training)
      : step_(step), builder_(step.builder()), training_(training) {
    gradients_.reserve(step.model().tensors.size() + 64);
  }

  void ReadsGradients(const Range& range) { gradients_.push_back(Reads(range)); }
  // Parameters and the optimizer's states.
  void WritesState(const Range& range) { states_.push_back(Writes(range)); }
  // `elements` of the model lie there; the optimizer's arrays are `stride` elements after one
  // another. `counted` and `group`: see ClippedRange.
  void Updates(const program::Elements& parameters, const program::Elements& gradients,
               const program::Elements& states, std::int64_t stride, std::int64_t elements,
               bool counted = true, model::ParameterGroup group = model::ParameterGroup::kDense) {
    if (!builder_.describes_data_flow() || elements == 0) return;
    clipped_.push_back({gradients, elements, counted, group});
    AppendJoined(updates_, OptimizerUpdate(parameters, gradients, states, stride, elements));
  }

  // Clips the gradients. Once.
  void Clip(GradientClipping& clipping, std::int64_t gradient_tensors, DataType type,
            std::int64_t elements) {
    clipping.Write(gradient_tensors, elements, type, gradients_, clipped_);
  }

  // Updates parameters with gradients that are clipped, if they are to be. Once.
  void Write(const UpdatedTensors& updated);
  // Both. The framework has the gradients in `gradient_tensors` tensors of `type`.
  void Write(GradientClipping& clipping, std::int64_t gradient_tensors, DataType type,
             const UpdatedTensors& updated);

 private:
  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  std::vector<program::BufferUse> gradients_, states_;
  std::vector<ClippedRange> clipped_;
  std::vector<program::Effect> updates_;
};

}  // namespace stepcast::lowering
