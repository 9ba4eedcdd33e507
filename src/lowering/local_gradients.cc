#include "src/lowering/local_gradients.h"

namespace stepcast::lowering {

using program::Category;

LocalGradients::LocalGradients(TrainingStep& step, Operations& operations, DataType type)
    : step_(step), operations_(operations) {
  ProgramBuilder& builder = step.builder();
  const Index own = builder.AddText(".grad"), next = builder.AddText(".grad (next)");
  gradients_.reserve(step.model().tensors.size());
  for (const model::Tensor& tensor : step.model().tensors) {
    const Index name = builder.AddText(tensor.name);
    const auto add = [&](Index part) {
      return operations_.AddRange({.first = name, .second = part}, tensor.elements, type,
                                  Category::kGradient);
    };
    Gradient& gradient = gradients_.emplace_back();
    gradient.own = add(own);
    if (step.plan().training.gradient_accumulation > 1) gradient.further = add(next);
  }
}

void LocalGradients::Write(int tensor, const program::Elements& source) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.exists) {
    operations_.Allocate(step_.compute(), gradient.own);
    gradient.exists = true;
    gradient.micro_batch = step_.micro_batch();
  }
  if (gradient.micro_batch != step_.micro_batch() && !gradient.further_exists) {
    operations_.Allocate(step_.compute(), gradient.further);
    gradient.further_exists = true;
  }
  const Range& written = Written(tensor);
  step_.builder().Use(Writes(written));
  // A tied tensor's further contributions in one micro-batch are added where they are made.
  const bool add = gradient.latest == step_.micro_batch();
  gradient.latest = step_.micro_batch();
  step_.WithGradient(tensor, 0, written.elements, written.place, source, add);
}

const Range& LocalGradients::Written(int tensor) const {
  const Gradient& gradient = gradients_[tensor];
  return gradient.further_exists ? gradient.further : gradient.own;
}

void LocalGradients::Complete(int tensor) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.further_exists) return;
  operations_.Accumulate(step_.compute(), "accumulate_gradient", gradient.own, gradient.further);
  operations_.Release(gradient.further);
  gradient.further_exists = false;
}

void LocalGradients::Release(int tensor) {
  operations_.Release(gradients_[tensor].own);
  gradients_[tensor].exists = false;
}

}  // namespace stepcast::lowering
