#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast::model {

// A kernel's name: its module's, such as `blocks.3.mlp`, and the operation, such as `.gelu`.
inline std::string Joined(std::string_view module, std::string_view suffix) {
  std::string name(module);
  name += suffix;
  return name;
}

// The product, or `most` if it is larger. The counts of a long sequence's score matrix can exceed
// 64 bits. The exact count does not matter, because no device has room for the batch.
inline std::int64_t Capped(std::int64_t a, std::int64_t b, std::int64_t most) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return most;
  return std::min(product, most);
}
// These bounds leave room for sums over all layers.
inline constexpr std::int64_t kMostFlops = std::int64_t{1} << 58;
inline constexpr std::int64_t kMostScoreBytes = std::int64_t{1} << 47;

// Sizes and costs of elements, independent of the model's compute type.

// Bytes of an FP32 number, of a dropout mask, of a token or word index.
inline constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;
// Floating-point operations per element. For memory-bound kernels they matter only on a device with
// little arithmetic for its bandwidth.
inline constexpr std::int64_t kSoftmaxFlops = 5;

}  // namespace stepcast::model
