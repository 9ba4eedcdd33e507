#pragma once

#include "src/nccl/communicator_model.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// Returns the bandwidth that NCCL's tuner expects without latency: bytes divided by time, in GB/s
// (NVIDIA/nccl, src/graph/tuning.cc). 0 if the algorithm does not exist for the function or on this
// communicator. Ignores user settings and the rules about LL128.
double AlgorithmBandwidth(const Communicator& communicator, Function function, Algorithm algorithm,
                          Protocol protocol);

// The upper limits of a communicator's bandwidth, in GB/s, as measured by NCCL's authors
// (NVIDIA/nccl, src/graph/tuning.cc).
struct BandwidthCeilings {
  double ll = 0;  // bus bandwidth of all channels
  // Limits per channel of the graph search:
  double ring_ll128 = 0;
  double tree_ll128 = 0;
  double tree = 0;
  double nvls_tree = 0;
  // The fraction of the links' bandwidth that reduction in the switch reaches.
  double nvls_efficiency = 0;
};

// Returns the limits for a communicator. `oldest` is the generation of the communicator's oldest
// GPU. In one node, `ll` depends on `oldest`; across nodes, `ll` depends on `cpu`.
BandwidthCeilings CeilingsOf(Version version, Generation oldest, Cpu cpu, int nodes);

// The link bandwidths that NCCL assumes, in GB/s in one direction, without protocol overhead
// (NVIDIA/nccl, src/graph/topo.h and topo.cc).

// Returns the bandwidth of one NVLink of a GPU, in GB/s. For example, an H100 has 18 links x 20.6
// GB/s = 370.8 GB/s.
constexpr double NvlinkBandwidth(int compute_capability) {
  if (compute_capability >= 100) return 40.1;
  if (compute_capability >= 90) return 20.6;
  if (compute_capability == 86) return 12.0;
  if (compute_capability >= 70) return 20.0;
  if (compute_capability >= 60) return 18.0;
  return 20.0;
}

// Returns the hardware rate of one NVLink in one direction, in GB/s: 20 for NVLink 1, 25 for NVLink
// 2 to 4, 50 for NVLink 5, and 14.0625 on GA10x (white papers of the architectures). NCCL assumes
// NvlinkBandwidth for this rate, even if a machine's links are slower.
constexpr double NvlinkRate(int compute_capability) {
  if (compute_capability >= 100) return 50;
  if (compute_capability == 86) return 14.0625;
  if (compute_capability >= 70) return 25;
  return 20;
}

// Returns the bandwidth of PCIe in GB/s, as NCCL computes it: lanes x transfers x 7.5 / 80.
// `transfers` is the speed of a lane in GT/s: 8 (generation 3), 16 or 32. Examples: 12 GB/s for 16
// lanes of generation 3, 48 GB/s for 16 lanes of generation 5.
constexpr double PcieBandwidth(int lanes, double transfers) { return lanes * transfers * 7.5 / 80; }

// Returns the bandwidth of a network port of `megabits` Mbit/s, in GB/s (50 for 400,000 Mbit/s).
constexpr double PortBandwidth(double megabits) { return megabits / 8000; }

// Returns the bandwidth between the sockets of a machine, in GB/s.
constexpr double SocketBandwidth(Cpu cpu) {
  switch (cpu) {
    case Cpu::kIntelBroadwell:
      return 6;
    case Cpu::kIntelSkylake:
      return 10;
    case Cpu::kIntelSapphireRapids:
      return 22;
    case Cpu::kIntelEmeraldRapids:
      return 40;
    case Cpu::kAmd:
    case Cpu::kMixed:
      return 16;
    case Cpu::kArm:
      return 6;
    case Cpu::kPower9:
      return 32;
  }
  return 0;
}

}  // namespace stepcast::nccl
