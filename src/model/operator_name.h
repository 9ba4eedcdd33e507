#pragma once

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

// Sizes and costs of elements, independent of the model's compute type.

// Bytes of an FP32 number, of a dropout mask, of a token or word index.
inline constexpr std::int64_t kFp32Size = 4, kMaskSize = 1, kIndexSize = 8;
// Floating-point operations per element. For memory-bound kernels they matter only on a device with
// little arithmetic for its bandwidth.
inline constexpr std::int64_t kSoftmaxFlops = 5;

}  // namespace stepcast::model
