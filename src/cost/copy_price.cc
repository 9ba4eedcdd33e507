#include "src/cost/copy_price.h"

#include <cstddef>

#include "src/base/check.h"
#include "src/cost/exact_time.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

Demand CopyDemand(Time latency, Time work, Resource resource) {
  Demand demand;
  demand.latency = latency;
  demand.work = work;
  if (work > Time()) demand.share[static_cast<std::size_t>(resource)] = 1;
  return demand;
}

}  // namespace

Demand PriceDeviceCopy(Bytes bytes, const topology::Gpu& gpu,
                       const calibration::KernelCosts& kernels) {
  const Time work =
      TimeOf({2, 1}, bytes, Achieved(gpu.memory_bandwidth, kernels.memory_efficiency));
  STEPCAST_CHECK(work >= TimeOf({2, 1}, bytes, gpu.memory_bandwidth),
                 "a copy must not be faster than the device's memory");
  return CopyDemand(kernels.start_latency, work, Resource::kMemory);
}

Demand PriceHostCopy(Bytes bytes, const HostLink& link, const calibration::KernelCosts& kernels,
                     const calibration::LinkCosts& links) {
  const Time work = TimeOf({1, 1}, bytes, Achieved(link.bandwidth, links.pcie_efficiency));
  STEPCAST_CHECK(work >= TimeOf({1, 1}, bytes, link.bandwidth),
                 "a copy must not be faster than the link to the host");
  return CopyDemand(kernels.start_latency + link.latency, work, Resource::kHostLink);
}

Demand PricePeerCopy(Bytes bytes, const topology::CommunicationPath& path, const topology::Gpu& gpu,
                     const calibration::KernelCosts& kernels, const calibration::LinkCosts& links) {
  const double efficiency = path.intra_is_nvlink ? links.nvlink_efficiency : links.pcie_efficiency;
  const Time work = TimeOf({1, 1}, bytes, Achieved(path.intra_bandwidth, efficiency));
  STEPCAST_CHECK(work >= TimeOf({1, 1}, bytes, path.intra_bandwidth),
                 "a copy must not be faster than the links");
  Demand demand = CopyDemand(kernels.start_latency + path.intra_latency, work, Resource::kScaleUp);
  if (work > Time()) {
    demand.share[static_cast<std::size_t>(Resource::kMemory)] =
        TimeOf({1, 1}, bytes, gpu.memory_bandwidth) / work;
  }
  return demand;
}

Demand PriceMeasuredCopy(Bytes bytes, const calibration::Curve& curve, bool on_device,
                         Time start_latency, bool latency_counts) {
  Demand demand = DemandOf(TimeFromCurve(curve, bytes), start_latency, latency_counts);
  if (demand.work > Time()) {
    const Resource resource = on_device ? Resource::kMemory : Resource::kHostLink;
    demand.share[static_cast<std::size_t>(resource)] = 1;
  }
  return demand;
}

}  // namespace stepcast::cost
