#include "src/calibration/stand_in.h"

#include <cstdint>

namespace stepcast::calibration {
namespace {

constexpr FlopRate Gigaflops(std::int64_t n) { return FlopRate::FlopsPerSecond(n * 1'000'000'000); }

// Of a compute capability (https://developer.nvidia.com/cuda-gpus) with several profiles the one
// that most was measured for.
struct OfCapability {
  int compute_capability;
  StandIn stand_in;
};
constexpr OfCapability kByCapability[] = {
    {70, {"v100-sxm2-32gb", Gigaflops(125'000)}}, {80, {"a100-sxm-80gb", Gigaflops(312'000)}},
    {86, {"sm_86", Gigaflops(154'800)}},          {89, {"l40s", Gigaflops(362'000)}},
    {90, {"h100-sxm", Gigaflops(989'000)}},       {100, {"b200", Gigaflops(2'250'000)}},
    {103, {"b300", Gigaflops(2'250'000)}},        {120, {"sm_120", Gigaflops(209'500)}},
    {121, {"sm_120", Gigaflops(209'500)}},
};

// AMD's: MI325X is a MI300X with more power and memory (gfx942 both), MI355X of the next
// generation.
struct OfName {
  std::string_view gpu;
  StandIn stand_in;
};
constexpr OfName kByName[] = {
    {"mi325x", {"mi300x", Gigaflops(1'307'000)}},
    {"mi355x", {"gfx950", Gigaflops(2'516'000)}},
};

PowerDraw Scaled(const PowerDraw& power, double ratio) {
  return {.idle = power.idle * ratio,
          .products = power.products * ratio,
          .memory = power.memory * ratio};
}

}  // namespace

std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability) {
  for (const OfName& known : kByName) {
    if (known.gpu == gpu) return known.stand_in;
  }
  for (const OfCapability& known : kByCapability) {
    if (known.compute_capability == compute_capability) return known.stand_in;
  }
  return std::nullopt;
}

Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak) {
  const double ratio = static_cast<double>(peak.flops_per_second()) /
                       static_cast<double>(stand_in.peak.flops_per_second());
  Calibration of_gpu = profile;
  of_gpu.gpus.emplace_back(gpu);
  if (of_gpu.kernels) of_gpu.kernels->power = Scaled(of_gpu.kernels->power, ratio);
  for (KernelRelease& release : of_gpu.kernel_releases) {
    release.costs.power = Scaled(release.costs.power, ratio);
  }
  for (Residual& residual : of_gpu.residuals) {
    if (residual.of == "memory") continue;
    residual.spread *= kStandInResiduals;
    residual.interpolation *= kStandInResiduals;
  }
  return of_gpu;
}

}  // namespace stepcast::calibration
