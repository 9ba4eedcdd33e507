#pragma once

#include <span>

#include "src/lowering/training_step.h"
#include "src/lowering/updated_tensors.h"

// The update of the parameters by an optimizer of PyTorch (torch.optim, or one that follows it).
namespace stepcast::lowering {

// The optimizer's kernels on the compute stream, with the tensors that they make:
//  * foreach: for every parameter one of its size, in the parameters' order, before the kernel that
//    writes them (aten/src/ATen/native/cuda/ForeachUnaryOp.cu: empty_like of each); they go when
//    the function returns, after the last kernel.
//  * single: one parameter after the other. The root goes when the next tensor begins, the
//    denominator when the name that holds it is given to the next one's: three at most.
//  * Optimizers of other libraries: tensor_by_tensor.h, muon.h.
// `uses` are the gradients read and the states written; `updates` what happens to them, said of the
// last kernel, which writes the parameters.
void WriteFrameworkUpdate(TrainingStep& step, const plan::Training& training,
                          const UpdatedTensors& updated, std::span<const program::BufferUse> uses,
                          std::span<const program::Effect> updates);

}  // namespace stepcast::lowering
