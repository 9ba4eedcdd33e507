#include "src/cost/kernel_price.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

struct Roofline {
  Time arithmetic;
  Time traffic;
};

Time TrafficTime(const Kernel& kernel, Bandwidth bandwidth) {
  return TimeOf({1, 1}, kernel.read + kernel.written, bandwidth);
}

Time VectorTime(const Kernel& kernel, const topology::Gpu& gpu) {
  const FlopRate peak = gpu.PeakOf(DataType::kFp32);
  if (peak == FlopRate()) return Time();
  return TimeOf(kernel.flops, peak);
}

double& ShareOf(Demand& demand, Resource resource) {
  return demand.share[static_cast<std::size_t>(resource)];
}

}  // namespace

Demand PriceGivenKernel(const Kernel& kernel) {
  STEPCAST_CHECK(kernel.kind == KernelKind::kGiven, "only given kernels bring their own time");
  Demand demand;
  demand.work = kernel.given;
  demand.provenance = Provenance::kGiven;
  ShareOf(demand, Resource::kCompute) = 1;
  return demand;
}

tl::expected<Demand, KernelFault> PriceKernel(const Kernel& kernel, const KernelSetting& setting) {
  if (kernel.kind == KernelKind::kGiven) return PriceGivenKernel(kernel);
  const topology::Gpu& gpu = setting.gpu;
  const calibration::KernelCosts& costs = setting.costs;
  const FlopRate peak = gpu.PeakOf(kernel.data_type);

  Roofline roofline;
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      const auto& gemm = costs.gemm[static_cast<std::size_t>(kernel.data_type)];
      if (peak == FlopRate()) return tl::unexpected(KernelFault::kNoPeak);
      if (gemm.max_efficiency == 0) return tl::unexpected(KernelFault::kNoEfficiency);
      roofline.arithmetic =
          TimeOf(kernel.flops + static_cast<std::int64_t>(std::llround(gemm.half_flops)),
                 Achieved(peak, gemm.max_efficiency));
      break;
    }
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      if (peak == FlopRate()) return tl::unexpected(KernelFault::kNoPeak);
      roofline.arithmetic =
          TimeFor(kernel.flops, peak.Scaled(kernel.kind == KernelKind::kAttention
                                                ? costs.attention_forward_efficiency
                                                : costs.attention_backward_efficiency));
      break;
    case KernelKind::kMemoryBound:
    case KernelKind::kOptimizer:
    case KernelKind::kGiven:
      roofline.arithmetic = VectorTime(kernel, gpu);
      break;
  }
  roofline.traffic = TrafficTime(kernel, Achieved(gpu.memory_bandwidth, costs.memory_efficiency));

  Demand demand;
  demand.latency = setting.start_latency ? costs.start_latency : Time();
  demand.work = std::max(roofline.arithmetic, roofline.traffic);
  if (demand.work > Time()) {
    ShareOf(demand, Resource::kCompute) = roofline.arithmetic / demand.work;
    ShareOf(demand, Resource::kMemory) = roofline.traffic / demand.work;
  }
  STEPCAST_CHECK(demand.work >= TrafficTime(kernel, gpu.memory_bandwidth),
                 "a kernel is never faster than the device's memory");
  STEPCAST_CHECK(peak == FlopRate() || demand.work >= TimeOf(kernel.flops, peak) ||
                     kernel.kind == KernelKind::kMemoryBound ||
                     kernel.kind == KernelKind::kOptimizer,
                 "a kernel is never faster than the device's peak");
  return demand;
}

}  // namespace stepcast::cost
