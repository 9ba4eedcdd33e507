#pragma once

#include <cstdint>
#include <vector>

#include "src/base/kernel.h"
#include "src/lowering/formulas.h"
#include "src/lowering/sized_kernel.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// The kernels that update parameters.
namespace stepcast::lowering {

// What updating `elements` of the model's parameters runs, in order.
//  * fused: one kernel; each operand crosses memory once (torch.optim with fused=True).
//  * foreach: PyTorch's default chain of multi-tensor kernels; for AdamW eight of them, 80 bytes a
//    parameter in FP32, with one FP32 temporary of the parameters' size (ForeachTemporary).
//  * single: the same chain for one tensor after the other (foreach=False): UpdateKernels is then
//    called for each. AdamW needs two FP32 temporaries of the tensor at hand, the root of the
//    second moment and its quotient with the bias correction.
// With FP32 master weights the gradient is read in its own type and the parameters are written
// back as a cast. A layer list runs its given time, scaled to the share of the elements.
std::vector<SizedKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                       const Amount& elements);

// The same for a number of elements that is known.
std::vector<Kernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                  std::int64_t elements);

// Bytes of temporaries per updated parameter: 4 for foreach AdamW (the square root of the second
// moment), 8 for one that takes tensors one by one, and, but for the latter, 4 more where gradients
// are cast up for the master weights; 0 for fused.
std::int64_t TemporaryBytesPerParameter(const plan::Training& training);

// An optimizer that goes one by one has all gradients cast up for the master weights first, as the
// wrappers that keep such weights beside PyTorch's optimizers do: so many bytes a parameter, for as
// long as it runs. 0 without master weights, and for the others.
std::int64_t CastGradientBytesPerParameter(const plan::Training& training);

}  // namespace stepcast::lowering
