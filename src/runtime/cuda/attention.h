#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "src/runtime/cuda/launch_plan.h"

// A fused causal attention core, forward and backward, after FlashAttention-2 (T. Dao, 2023,
// arXiv:2307.08691). Scores stay on the chip, so memory traffic grows linearly with the sequence.
// The kernel uses only mma instructions that sm_80, sm_90 and sm_100 support. Vendors' kernels also
// use instructions of the newest GPUs, and are therefore faster on these GPUs.
//
// Queries, outputs and their gradients are [heads, sequence, head size]; keys, values and their
// gradients are [key heads, sequence, head size]. Query head h uses key head h / (heads / key
// heads). All addresses are multiples of 16 bytes.
namespace stepcast::runtime::cuda {

struct AttentionForward {
  const void *queries = nullptr, *keys = nullptr, *values = nullptr;
  void* output = nullptr;
  float* log_sum_exp = nullptr;  // [heads, sequence]: log-sum-exp of the scaled scores
};
struct AttentionBackward {
  const void *queries = nullptr, *keys = nullptr, *values = nullptr, *output_gradient = nullptr;
  const float* log_sum_exp = nullptr;
  const float* row_sums = nullptr;  // [heads, sequence]: row sums of output times output gradient
  float* query_accumulator = nullptr;  // [heads, sequence, head size]; overwritten
  void *query_gradient = nullptr, *key_gradient = nullptr, *value_gradient = nullptr;
};

// Launches the fused attention core. `attention.fused` must be true.
cudaError_t LaunchAttention(const Attention& attention, const AttentionForward& operands,
                            cudaStream_t stream);
cudaError_t LaunchAttention(const Attention& attention, const AttentionBackward& operands,
                            cudaStream_t stream);

// Launches the attention core on synthetic operands, which are stored one after another in `input`
// and `output`. InputOf and OutputOf (launch_plan.h) return the sizes of these areas.
cudaError_t LaunchAttention(const Attention& attention, const std::byte* input, std::byte* output,
                            cudaStream_t stream);

}  // namespace stepcast::runtime::cuda
