#include "src/calibration/calibration.h"

#include <algorithm>
#include <type_traits>

#include "fmt/format.h"

namespace stepcast::calibration {

bool KernelCosts::measured() const {
  const auto any = [](const auto& by_type) {
    return std::any_of(by_type.begin(), by_type.end(),
                       [](const auto& entry) { return !entry.empty(); });
  };
  return any(gemm_surface) || any(attention_forward_curve) || any(attention_backward_curve) ||
         !memory_curve.empty() || !optimizer_curve.empty();
}

std::vector<std::string> Complete(const KernelCosts& defaults, KernelCosts& kernels) {
  std::vector<std::string> filled;
  const auto fill = [&](std::string key, bool measured, const auto& from, auto& to) {
    using Value = std::remove_reference_t<decltype(to)>;
    if (measured || to != Value() || from == Value()) return;
    to = from;
    filled.push_back(std::move(key));
  };
  bool attention_forward = false;
  bool attention_backward = false;
  for (DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16, DataType::kFp8}) {
    const auto at = static_cast<std::size_t>(type);
    fill(fmt::format("gemm.{}", Name(type)), !kernels.gemm_surface[at].empty(), defaults.gemm[at],
         kernels.gemm[at]);
    attention_forward = attention_forward || !kernels.attention_forward_curve[at].empty();
    attention_backward = attention_backward || !kernels.attention_backward_curve[at].empty();
  }
  fill("attention_forward_efficiency", attention_forward, defaults.attention_forward_efficiency,
       kernels.attention_forward_efficiency);
  fill("attention_backward_efficiency", attention_backward, defaults.attention_backward_efficiency,
       kernels.attention_backward_efficiency);
  fill("memory_efficiency", !kernels.memory_curve.empty(), defaults.memory_efficiency,
       kernels.memory_efficiency);
  return filled;
}

}  // namespace stepcast::calibration
