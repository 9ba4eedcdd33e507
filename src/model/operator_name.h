#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast::model {

// The name of a kernel: its module's, as `blocks.3.mlp`, and what it does there, as `.gelu`.
inline std::string Joined(std::string_view module, std::string_view suffix) {
  std::string name(module);
  name += suffix;
  return name;
}

// What elements of operators take, whatever the model computes in.

// Bytes: numbers that stay in FP32, a dropout's mask, an index of a token or of a word.
inline constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;
// Floating-point operations. Those of kernels that memory bounds matter only where a device has
// little arithmetic for its bandwidth.
inline constexpr std::int64_t kSoftmaxFlops = 5;

}  // namespace stepcast::model
