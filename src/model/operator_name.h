#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast::model {

// Returns a kernel's name, which consists of a module's name, such as `blocks.3.mlp`, and an
// operation, such as `.gelu`.
inline std::string Joined(std::string_view module, std::string_view suffix) {
  std::string name(module);
  name += suffix;
  return name;
}

// Returns `a` times `b`, but at most `most`. The score matrix of a long sequence can have more
// elements than 64 bits can represent; the exact size does not matter, because such a matrix fits
// on no device.
inline std::int64_t Capped(std::int64_t a, std::int64_t b, std::int64_t most) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return most;
  return std::min(product, most);
}
// Upper limits for the FLOPs and bytes of one kernel. With these limits, sums over all layers fit
// in 64 bits.
inline constexpr std::int64_t kMostFlops = std::int64_t{1} << 58;
inline constexpr std::int64_t kMostScoreBytes = std::int64_t{1} << 47;

// The sizes in bytes of an FP32 number, of an element of a dropout mask, and of a token or word
// index.
inline constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;
// Floating-point operations per element of a memory-bound kernel. These operations affect only
// devices with low arithmetic throughput relative to their bandwidth.
inline constexpr std::int64_t kSoftmaxFlops = 5;

}  // namespace stepcast::model
