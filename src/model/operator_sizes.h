#pragma once

#include <cstdint>

// What elements of operators take, whatever the model computes in.
namespace stepcast::model {

// Bytes: numbers that stay in FP32, a dropout's mask, an index of a token or of a word.
inline constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;
// Floating-point operations. Those of kernels that memory bounds matter only where a device has
// little arithmetic for its bandwidth.
inline constexpr std::int64_t kSoftmaxFlops = 5;

}  // namespace stepcast::model
