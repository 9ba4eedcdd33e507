#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/kernel.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// The kernels that update parameters, and the tensors that they make on their way.
namespace stepcast::lowering {

// What an update makes for each tensor that it updates: a tensor of as many numbers, of the type of
// what is updated (plan::UpdatedType).
enum class Temporary : std::uint8_t {
  kGradient,     // cast up for the master weights
  kRoot,         // of the second moment
  kDenominator,  // the root over the bias correction, plus epsilon
};
inline constexpr int kTemporaries = 3;

struct UpdateKernel {
  Kernel kernel;
  std::optional<Temporary> makes{}, works_on{};
};

// What updating `elements` of the model's parameters runs, in order (torch/optim/adamw.py, sgd.py).
//  * fused: one kernel; each operand crosses memory once (torch.optim with fused=True).
//  * foreach: PyTorch's default chain of multi-tensor kernels. For AdamW eight of them, 80 bytes a
//    parameter in FP32, 40 in 16 bits, with the root as the one temporary. Before torch 2.1 the first moment took
//    two kernels, not one of lerp (pytorch/pytorch pull request 104796): 88 bytes; and the
//    denominator was a temporary of its own beside the root (104898).
//  * LAMB (Apex's FusedLAMB; with 16 bits the one of NVIDIA/DeepLearningExamples@729963dd
//    PyTorch/LanguageModeling/BERT/lamb_amp_opt, which takes gradients as they are): norm of all
//    gradients, norms of the tensors, moments and update, which takes the gradient's place, norms
//    of updates, parameters. In fp16 the gradient scaler looks for infinities first.
//  * single: the same chain for one tensor after the other (foreach=False): UpdateKernels is then
//    called for each. Root and denominator are two temporaries in all releases.
// The update works on FP32 master weights where there are any: the gradient is read in its own type
// and the parameters are written back as a cast. Where the parameters of 16 bits hold one half of
// the master weights and the optimizer the other (fp16_remainder), both are read and written.
// Without master weights all are of the parameters' type, moments of optimizer_state_dtype. A layer
// list runs its given time, scaled to the share of the elements.
std::vector<UpdateKernel> UpdateKernels(const model::Model& model, const plan::Training& training,
                                        Version torch, std::int64_t elements);

}  // namespace stepcast::lowering
