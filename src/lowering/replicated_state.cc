#include "src/lowering/replicated_state.h"

#include "src/lowering/model_state.h"

namespace stepcast::lowering {

using program::Category;

void ReplicatedState::WritePrologue() {
  ProgramBuilder& builder = step_.builder();
  const plan::Training& training = step_.plan().training;
  for (const model::Tensor& tensor : step_.model().tensors) {
    offsets_.push_back(elements_);
    elements_ += tensor.elements;
  }
  parameters_ = operations_.AddRange({.first = builder.AddText("parameters")}, elements_,
                                     training.parameter_dtype, Category::kParameter);
  const program::NameParts states{.first = builder.AddText("optimizer states")};
  if (plan::HasEqualMoments(training.optimizer)) {
    const plan::OptimizerArrays arrays = plan::OptimizerArraysOf(training);
    optimizer_ =
        operations_.AddRange(states, elements_ * arrays.count, arrays.type, Category::kOptimizer);
  } else {
    optimizer_ = AddOptimizerStates(step_, operations_, states, Updated().tensors);
  }
  operations_.Allocate(step_.compute(), parameters_);
  operations_.Allocate(step_.compute(), optimizer_);
  if (!builder.describes_data_flow()) return;
  AddParameterState(step_, parameters_.place, 0, elements_);
  AddOptimizerState(step_, optimizer_.place, elements_, 0, elements_);
}

void ReplicatedState::AppendUpdate(int tensor, const Range& gradient,
                                   ParameterUpdate& update) const {
  update.Updates(Parameter(tensor).place, gradient.place, optimizer_.At(offsets_[tensor]),
                 elements_, gradient.elements);
}

void ReplicatedState::Write(ParameterUpdate& update, GradientClipping& clipping) const {
  update.WritesState(optimizer_);
  update.WritesState(parameters_);
  update.Write(clipping, static_cast<std::int64_t>(step_.model().tensors.size()),
               step_.plan().training.gradient_dtype, Updated());
}

UpdatedTensors ReplicatedState::Updated() const {
  UpdatedTensors updated{.elements = elements_, .tensors = {}};
  const auto& tensors = step_.model().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].elements == 0) continue;
    updated.tensors.push_back({.tensor = static_cast<int>(t), .elements = tensors[t].elements});
  }
  return updated;
}

}  // namespace stepcast::lowering
