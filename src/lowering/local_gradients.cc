#include "src/lowering/local_gradients.h"

#include <map>

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;

LocalGradients::LocalGradients(TrainingStep& step, DataType type) : step_(step), type_(type) {
  ProgramBuilder& builder = step.builder();
  std::map<Bytes, Index> kernels;  // layers are alike
  for (const model::Tensor& tensor : step.model().tensors) {
    const Bytes size = BytesOf(tensor.elements, type);
    Gradient& gradient = gradients_.emplace_back();
    gradient.buffer =
        builder.AddBuffer(builder.Named(tensor.name, ".grad"), size, Category::kGradient);
    if (step.plan().training.gradient_accumulation == 1) continue;
    gradient.further =
        builder.AddBuffer(builder.Named(tensor.name, ".grad (next)"), size, Category::kGradient);
    const auto [kernel, added] = kernels.try_emplace(size, program::kNone);
    if (added) {
      kernel->second = builder.AddKernel({.name = "accumulate_gradient",
                                          .kind = KernelKind::kMemoryBound,
                                          .data_type = type,
                                          .read = 2 * size,
                                          .written = size});
    }
    gradient.add = kernel->second;
  }
}

void LocalGradients::Write(int tensor, const program::Elements& source,
                           std::vector<BufferUse>& uses) {
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
  uses.push_back(Written(tensor));
  // A tied tensor's further contributions in one micro-batch are added where they are made.
  const bool add = gradient.latest == step_.micro_batch();
  gradient.latest = step_.micro_batch();
  step_.WithGradient(tensor, 0, step_.model().tensors[tensor].elements,
                     At(uses.back().buffer, 0, type_), source, add, uses);
}

BufferUse LocalGradients::Written(int tensor) const {
  const Gradient& gradient = gradients_[tensor];
  return step_.builder().WritesAll(gradient.further_exists ? gradient.further : gradient.buffer);
}

void LocalGradients::Complete(int tensor) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.further_exists) return;
  ProgramBuilder& builder = step_.builder();
  builder.With(Added(
      Move(place(tensor), At(gradient.further, 0, type_), step_.model().tensors[tensor].elements)));
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
