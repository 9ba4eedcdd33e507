#pragma once

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/topology/device.h"
#include "src/topology/routes.h"

// Prices copies by the bandwidth of the memory or link that they use.
//
//   Device to device: start_latency, then 2 x bytes (read and written) over memory bandwidth x
//     memory_efficiency.
//   To or from the host: start_latency and the wire's latency, then bytes over PCIe bandwidth x
//     pcie_efficiency.
//
// If the profile has a measured curve for the direction, the curve's times replace these formulas.
// Measured times include the start latency.
namespace stepcast::cost {

// The PCIe link between a device and its host, in one direction.
struct HostLink {
  Time latency;
  Bandwidth bandwidth;
};

Demand PriceDeviceCopy(Bytes bytes, const topology::Gpu& gpu,
                       const calibration::KernelCosts& kernels);

Demand PriceHostCopy(Bytes bytes, const HostLink& link, const calibration::KernelCosts& kernels,
                     const calibration::LinkCosts& links);

// Returns the price of a copy between GPUs of one node by their copy engines, which use no
// multiprocessors and no intermediate buffers. The price is the start latency, the latency of the
// links, and the transfer at the links' efficiency. The copy reads each byte once at the source and
// writes it once at the target. Requires path.nodes = 1 and path.intra_bandwidth > 0.
Demand PricePeerCopy(Bytes bytes, const topology::CommunicationPath& path, const topology::Gpu& gpu,
                     const calibration::KernelCosts& kernels, const calibration::LinkCosts& links);

// Returns the price of a copy from a measured curve. If `latency_counts` is false, the start
// latency is subtracted.
Demand PriceMeasuredCopy(Bytes bytes, const calibration::Curve& curve, bool on_device,
                         Time start_latency, bool latency_counts);

}  // namespace stepcast::cost
