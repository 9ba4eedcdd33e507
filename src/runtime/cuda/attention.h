#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "src/runtime/cuda/launch_plan.h"

// A fused causal attention core, forward and backward, after FlashAttention-2 (T. Dao, 2023,
// arXiv:2307.08691): scores stay on the chip, so memory traffic grows with the sequence and not
// with its square. It runs on the mma instructions that all of sm_80, sm_90 and sm_100 have; the
// instructions of their own that the newest GPUs have make vendors' kernels faster there.
//
// Rows of queries, outputs and their gradients: [heads, sequence, head size]; keys, values and
// their gradients: [key heads, sequence, head size]; query head h goes with key head
// h / (heads / key heads). All addresses are multiples of 16 bytes.
namespace stepcast::runtime::cuda {

struct AttentionForward {
  const void *queries = nullptr, *keys = nullptr, *values = nullptr;
  void* output = nullptr;
  float* log_sum_exp = nullptr;  // [heads, sequence], of the scaled scores
};
struct AttentionBackward {
  const void *queries = nullptr, *keys = nullptr, *values = nullptr, *output_gradient = nullptr;
  const float* log_sum_exp = nullptr;
  const float* row_sums = nullptr;     // [heads, sequence], of output times its gradient
  float* query_accumulator = nullptr;  // [heads, sequence, head size]; overwritten
  void *query_gradient = nullptr, *key_gradient = nullptr, *value_gradient = nullptr;
};

// `attention.fused` must hold.
cudaError_t LaunchAttention(const Attention& attention, const AttentionForward& operands,
                            cudaStream_t stream);
cudaError_t LaunchAttention(const Attention& attention, const AttentionBackward& operands,
                            cudaStream_t stream);

// Operands on stand-ins: one behind the other in `input` and `output`, which have room for what
// InputOf and OutputOf (launch_plan.h) say.
cudaError_t LaunchAttention(const Attention& attention, const std::byte* input, std::byte* output,
                            cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
