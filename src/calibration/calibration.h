#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"

// A calibration profile: what a GPU type and its software were measured, or published, to achieve.
// Data, not code: calibration/*.yaml, every figure with its source. Format: docs/formats.md. How
// the figures become times: src/cost/kernel_price.h, src/cost/collective_price.h. What values are
// believable: plausible.h.
namespace stepcast::calibration {

// Achieved part of a peak for matrix products of one data type. Efficiency rises with the amount
// of work: a product of `flops` runs at max_efficiency * flops / (flops + half_flops) of the
// device's peak, where half_flops is the size at which half of the maximum is reached. Seen as a
// time, the product costs (flops + half_flops) / (max_efficiency * peak): half_flops is what a
// partly filled device wastes, and both follow from a straight line through measured times.
// All zero: the profile says nothing about the data type.
struct GemmEfficiency {
  double max_efficiency = 0;
  double half_flops = 0;
  friend bool operator==(const GemmEfficiency&, const GemmEfficiency&) = default;
};

struct KernelCosts {
  std::array<GemmEfficiency, 4> gemm;       // by DataType
  double attention_forward_efficiency = 0;  // of the peak of the data type
  double attention_backward_efficiency = 0;
  double memory_efficiency = 0;  // achieved part of the device memory bandwidth
  Time start_latency;            // shortest time any kernel takes on the device
  Time launch;                   // host time to issue one kernel (eager)
  Time collective_launch;        // host time to issue one collective
};

// NCCL-like software over the links: constants of one protocol (Simple), by hop. A hop inside the
// node includes the wire's own latency; one over the network comes on top of it.
struct LinkCosts {
  double nvlink_efficiency = 0;  // achieved part of the wire bandwidth, one direction
  double pcie_efficiency = 0;
  double network_efficiency = 0;
  Time ring_base, tree_base;                              // once per collective
  Time ring_nvlink_hop, ring_pcie_hop, ring_network_hop;  // per step over such a hop
  Time tree_nvlink_hop, tree_pcie_hop, tree_network_hop;
};

// Device memory that the framework's allocator does not see, and library workspaces.
struct MemoryCosts {
  Bytes context;             // CUDA context and loaded kernels
  Bytes first_communicator;  // NCCL, the first communicator
  Bytes next_communicator;   // each further one
  Bytes gemm_workspace;      // cuBLAS workspace per stream that runs matrix products
};

// Measured times of one collective on one group shape, sizes by nccl-tests' convention, ascending.
struct CollectiveTable {
  Location location;  // where the table stands, for messages
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0;
  int nodes = 0;
  std::vector<std::pair<Bytes, Time>> points;
};

struct Calibration {
  std::string name;
  Location location;                                            // of the file, for messages
  std::vector<std::pair<std::string, std::string>> provenance;  // as written, not empty
  std::optional<KernelCosts> kernels;
  std::optional<LinkCosts> links;
  std::optional<MemoryCosts> memory;
  std::vector<CollectiveTable> collectives;
};

}  // namespace stepcast::calibration
