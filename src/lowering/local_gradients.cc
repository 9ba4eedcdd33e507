#include "src/lowering/local_gradients.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;

LocalGradients::LocalGradients(TrainingStep& step, DataType type) : step_(step) {
  ProgramBuilder& builder = step.builder();
  for (const model::Tensor& tensor : step.model().tensors) {
    const Bytes size = BytesOf(tensor.elements, type);
    Gradient& gradient = gradients_.emplace_back();
    gradient.buffer = builder.AddBuffer(tensor.name + ".grad", size, Category::kGradient);
    if (step.plan().training.gradient_accumulation == 1) continue;
    gradient.further = builder.AddBuffer(tensor.name + ".grad (next)", size, Category::kGradient);
    gradient.add = builder.AddKernel({.name = "accumulate_gradient",
                                      .kind = KernelKind::kMemoryBound,
                                      .data_type = type,
                                      .read = 2 * size,
                                      .written = size});
  }
}

BufferUse LocalGradients::Slot(int tensor) {
  Gradient& gradient = gradients_[tensor];
  ProgramBuilder& builder = step_.builder();
  if (!gradient.exists) {
    builder.Allocate(step_.compute(), gradient.buffer);
    gradient.exists = true;
    gradient.micro_batch = step_.micro_batch();
  }
  if (gradient.micro_batch == step_.micro_batch()) return builder.WritesAll(gradient.buffer);
  if (!gradient.further_exists) {
    builder.Allocate(step_.compute(), gradient.further);
    gradient.further_exists = true;
  }
  return builder.WritesAll(gradient.further);
}

void LocalGradients::Complete(int tensor) {
  Gradient& gradient = gradients_[tensor];
  if (!gradient.further_exists) return;
  ProgramBuilder& builder = step_.builder();
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
