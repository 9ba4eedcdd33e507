#pragma once

#include <cstdint>

// Choices that decide which activations live from forward to backward.
namespace stepcast::model {

// Recomputation in backward (Korthikanti et al. 2022, arXiv 2205.05198).
enum class Checkpointing : std::uint8_t {
  kNone,
  kSelective,  // the attention core is recomputed: scores, softmax, dropout are not kept
  kFull,       // only a block's input is kept
  // Kept are a block's input, the outcome of the attention core and of every second matrix product
  // from the first on; the rest is recomputed. torchtitan's default policy
  // (pytorch/torchtitan@b5bcd76, "selective op").
  kSelectiveOp,
};

// How the attention core runs: fused, without the score matrix in memory, or as separate kernels.
// The fused forms differ in speed alone:
//   kFlash    FlashAttention-2 (arXiv 2307.08691), what PyTorch's scaled_dot_product_attention runs
//   kFlash1   the first generation (arXiv 2205.14135), also in Triton; on GPUs after A100 it does
//             not use the tensor cores' new instructions
//   kFlash3   the third (arXiv 2407.08608), for Hopper
// The forms with the score matrix:
//   kMath          mask and softmax are kernels of their own
//   kFusedSoftmax  one kernel (Megatron-LM's scaled_upper_triang_masked_softmax), which reads what
//                  the causal mask leaves alone
enum class Attention : std::uint8_t { kFlash, kMath, kFlash1, kFlash3, kFusedSoftmax };

// The cross entropy over the whole vocabulary:
//   kEager    a cast to FP32, log-softmax and negative log-likelihood, each through memory
//   kInPlace  Megatron-LM's (megatron/core/tensor_parallel/cross_entropy.py): an FP32 copy that is
//             shifted, exponentiated, divided and turned into its gradient where it lies; more
//             passes over less memory
//   kFused    one kernel that keeps FP32 in registers (FlashAttention's and Liger's loss,
//             torch.compile)
enum class Loss : std::uint8_t { kEager, kInPlace, kFused };

const char* Name(Loss loss);                    // "eager", "in_place", "fused"
const char* Name(Checkpointing checkpointing);  // "none", "selective", ...
const char* Name(Attention attention);          // "flash", "math", "flash1", ...
// 1, 2, 3; 0 where the score matrix is in memory.
int FlashGeneration(Attention attention);

}  // namespace stepcast::model
