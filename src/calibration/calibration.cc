#include "src/calibration/calibration.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "fmt/format.h"

namespace stepcast::calibration {

const GemmSurface& KernelCosts::SurfaceOf(DataType type, ProductLayout layout) const {
  const auto at = static_cast<std::size_t>(type);
  const GemmSurface* surface = &gemm_surface[at];
  if (layout == ProductLayout::kInputGradient) surface = &gemm_input_gradient_surface[at];
  if (layout == ProductLayout::kWeightGradient) surface = &gemm_weight_gradient_surface[at];
  return surface->empty() ? gemm_surface[at] : *surface;
}

bool KernelCosts::measured() const {
  const auto any = [](const auto& by_type) {
    return std::any_of(by_type.begin(), by_type.end(),
                       [](const auto& entry) { return !entry.empty(); });
  };
  return any(gemm_surface) || any(attention_forward_surface) || any(attention_backward_surface) ||
         !memory_curve.empty() || !optimizer_curve.empty();
}

bool Calibration::MayHoldFor(std::string_view gpu) const {
  return gpus.empty() || std::find(gpus.begin(), gpus.end(), gpu) != gpus.end();
}

const KernelCosts& Calibration::KernelsOf(Version torch) const {
  const KernelCosts* newest = &*kernels;
  for (const KernelRelease& release : kernel_releases) {
    if (release.torch <= torch) newest = &release.costs;
  }
  return *newest;
}

Time OnHost(Time time, double speed) {
  return Picoseconds(std::llround(static_cast<double>(time.picoseconds()) / speed));
}

Dispatch OnHost(const Dispatch& dispatch, double speed) {
  return {.module = OnHost(dispatch.module, speed), .autograd = OnHost(dispatch.autograd, speed)};
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
  bool tiles_taken = false;
  for (DataType type : kDataTypes) {
    const auto at = static_cast<std::size_t>(type);
    const bool products = !kernels.gemm_surface[at].empty() || !kernels.gemm_tiling[at].empty();
    fill(fmt::format("gemm.{}", Name(type)), products, defaults.gemm[at], kernels.gemm[at]);
    const bool tiled = !kernels.gemm_tiling[at].empty();
    fill(fmt::format("gemm.{}", Name(type)), products || kernels.gemm[at] != GemmEfficiency(),
         defaults.gemm_tiling[at], kernels.gemm_tiling[at]);
    tiles_taken = tiles_taken || (!tiled && !kernels.gemm_tiling[at].empty());
    attention_forward = attention_forward || !kernels.attention_forward_surface[at].empty();
    attention_backward = attention_backward || !kernels.attention_backward_surface[at].empty();
  }
  // The tiles' speed includes the clock that the power limit allows.
  fill("power", !tiles_taken, defaults.power, kernels.power);
  fill("power.memory_watts", kernels.power.products == 0, defaults.power.memory,
       kernels.power.memory);
  for (std::size_t i = 0; i < kernels.attention.size(); ++i) {
    // If the default generation was measured, its efficiencies are not used.
    const bool measured = i == 1 && (attention_forward || attention_backward ||
                                     kernels.attention_forward_efficiency != 0);
    fill(fmt::format("attention.{}", kFusedNames[i]), measured, defaults.attention[i],
         kernels.attention[i]);
  }
  // A single rank issues no collectives.
  fill("collective_launch", kernels.collective_launch > Time(), defaults.collective_launch,
       kernels.collective_launch);
  fill("gemm_unaligned", false, defaults.gemm_unaligned, kernels.gemm_unaligned);
  fill("gemm_unaligned_even", false, defaults.gemm_unaligned_even, kernels.gemm_unaligned_even);
  fill("gemm_unaligned_result", false, defaults.gemm_unaligned_result,
       kernels.gemm_unaligned_result);
  fill("batched_unaligned", false, defaults.batched_unaligned, kernels.batched_unaligned);
  fill("jitter", false, defaults.jitter, kernels.jitter);
  fill("variation", false, defaults.variation, kernels.variation);
  fill("token_sum_time", !kernels.memory_curve.empty(), defaults.token_sum_time,
       kernels.token_sum_time);
  fill("attention_forward_efficiency", attention_forward, defaults.attention_forward_efficiency,
       kernels.attention_forward_efficiency);
  fill("attention_backward_efficiency", attention_backward, defaults.attention_backward_efficiency,
       kernels.attention_backward_efficiency);
  fill("memory_efficiency", !kernels.memory_curve.empty(), defaults.memory_efficiency,
       kernels.memory_efficiency);
  return filled;
}

}  // namespace stepcast::calibration
