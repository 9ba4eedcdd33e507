#pragma once

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"
#include "src/topology/device.h"
#include "src/topology/routes.h"

// Copies by the bandwidth of what they cross.
//
//   device to device   start_latency, then 2 x bytes (read and written) over memory bandwidth x
//                      memory_efficiency
//   to or from host    start_latency and the wire's latency, then bytes over PCIe bandwidth x
//                      pcie_efficiency
//
// Where the profile has a curve for the direction, its times count instead: they hold the start.
namespace stepcast::cost {

// PCIe between a device and its host, one direction.
struct HostLink {
  Time latency;
  Bandwidth bandwidth;
};

Demand PriceDeviceCopy(Bytes bytes, const topology::Gpu& gpu,
                       const calibration::KernelCosts& kernels);

Demand PriceHostCopy(Bytes bytes, const HostLink& link, const calibration::KernelCosts& kernels,
                     const calibration::LinkCosts& links);

// By copy engines from one GPU to another of its node, which take no multiprocessors and fill no
// buffer in between: a copy's start and the links' latency, and the links at their efficiency; read
// once here, written once there. Requires path.nodes = 1 and path.intra_bandwidth > 0.
Demand PricePeerCopy(Bytes bytes, const topology::CommunicationPath& path, const topology::Gpu& gpu,
                     const calibration::KernelCosts& kernels, const calibration::LinkCosts& links);

// `latency_counts` false leaves the start out.
Demand PriceMeasuredCopy(Bytes bytes, const calibration::Curve& curve, bool on_device,
                         Time start_latency, bool latency_counts);

}  // namespace stepcast::cost
