#include "src/lowering/local_gradients.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;

LocalGradients::LocalGradients(TrainingStep& step, DataType type)
    : step_(step), type_(type), kernels_(step.builder()) {
  ProgramBuilder& builder = step.builder();
  const Index own = builder.AddText(".grad"), next = builder.AddText(".grad (next)");
  gradients_.reserve(step.model().tensors.size());
  for (const model::Tensor& tensor : step.model().tensors) {
    const Bytes size = BytesOf(tensor.elements, type);
    const Index name = builder.AddText(tensor.name);
    Gradient& gradient = gradients_.emplace_back();
    gradient.buffer = builder.AddBuffer({.first = name, .second = own}, size, Category::kGradient);
    if (step.plan().training.gradient_accumulation == 1) continue;
    gradient.further =
        builder.AddBuffer({.first = name, .second = next}, size, Category::kGradient);
    gradient.add = kernels_.Add("accumulate_gradient", type, 2 * size, size);
  }
}

void LocalGradients::Write(int tensor, const program::Elements& source) {
  Gradient& gradient = gradients_[tensor];
  ProgramBuilder& builder = step_.builder();
  if (!gradient.exists) {
    builder.Allocate(step_.compute(), gradient.buffer);
    gradient.exists = true;
    gradient.micro_batch = step_.micro_batch();
  }
  if (gradient.micro_batch != step_.micro_batch() && !gradient.further_exists) {
    builder.Allocate(step_.compute(), gradient.further);
    gradient.further_exists = true;
  }
  const BufferUse written = Written(tensor);
  builder.Use(written);
  // A tied tensor's further contributions in one micro-batch are added where they are made.
  const bool add = gradient.latest == step_.micro_batch();
  gradient.latest = step_.micro_batch();
  step_.WithGradient(tensor, 0, step_.model().tensors[tensor].elements,
                     At(written.buffer, 0, type_), source, add);
}

BufferUse LocalGradients::Written(int tensor) const {
  const Gradient& gradient = gradients_[tensor];
  return step_.builder().WritesAll(gradient.further_exists ? gradient.further : gradient.buffer);
}

void LocalGradients::Complete(int tensor) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.further_exists) return;
  ProgramBuilder& builder = step_.builder();
  if (builder.describes_data_flow()) {
    builder.With(Added(Move(place(tensor), At(gradient.further, 0, type_),
                            step_.model().tensors[tensor].elements)));
  }
  builder.Run(step_.compute(), gradient.add,
              {builder.ReadsAll(gradient.further), builder.WritesAll(gradient.buffer)});
  builder.Release(gradient.further);
  gradient.further_exists = false;
}

void LocalGradients::Release(int tensor) {
  step_.builder().Release(gradients_[tensor].buffer);
  gradients_[tensor].exists = false;
}

}  // namespace stepcast::lowering
