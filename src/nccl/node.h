#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/nccl/version.h"

namespace stepcast::nccl {

// A machine as NCCL sees it: of its GPUs only those that belong to the communicator.

// Where a device is plugged in.
struct PcieSlot {
  int pcie_switch = -1;  // index into Node::switches; -1: at the processor
  int socket = 0;        // of a device without switch
  double bandwidth = 0;  // of its own PCIe link, see PcieBandwidth
};

struct PcieSwitch {
  int socket = 0;
  double bandwidth = 0;  // of the link to the processor
};

struct Gpu {
  int compute_capability = 0;  // 90 is 9.0
  int nvswitch_links = 0;      // NVLinks into NVSwitch; 0: there is none
  PcieSlot slot;
};

// NVLinks that join two GPUs directly.
struct NvlinkBundle {
  int a = 0;
  int b = 0;
  int links = 0;
};

struct Nic {
  double bandwidth = 0;  // of its port, see PortBandwidth
  double latency = 0;    // us, as the network plug-in states it; 0 for InfiniBand and RoCE
  bool reduces = false;  // the network can reduce for it (SHARP)
  PcieSlot slot;
};

struct Node {
  std::vector<Gpu> gpus;  // in order of rank
  std::vector<NvlinkBundle> nvlinks;
  std::vector<PcieSwitch> switches;
  std::vector<Nic> nics;
  Cpu cpu = Cpu::kIntelSapphireRapids;
};

// How far two devices of a node are apart, nearest first (NVIDIA/nccl, src/graph/topo.h).
enum class PathType : std::uint8_t {
  kLocal,         // the device itself
  kNvlink,        // NVLink, direct or through NVSwitch
  kNvlinkBridge,  // NVLink through another GPU
  kC2c,           // chip to chip
  kPix,           // one PCIe switch
  kPxb,           // several PCIe switches
  kP2c,           // chip to chip to the processor, then PCIe
  kPxn,           // to a network card through a GPU that is near it
  kPhb,           // the processor's PCIe root
  kSys,           // the link between sockets
  kNet,           // the network
  kDisconnected
};

constexpr std::string_view Name(PathType type) {
  constexpr std::string_view kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                         "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames[static_cast<unsigned>(type)];
}

// The next farther one.
constexpr PathType Farther(PathType type) {
  return static_cast<PathType>(static_cast<unsigned>(type) + 1);
}

// The links of a node and the paths over them (NVIDIA/nccl, src/graph/paths.cc).

// One direction of a link. Link i and link i ^ 1 are the two directions of one link.
struct Link {
  std::int64_t bandwidth =
      0;  // MB/s: whole numbers, so that taking and giving back leaves no trace
  bool pcie = false;
  bool nvlink = false;
  bool slow_receiver = false;  // into a GPU before Ampere: what the network writes there costs an
                               // eighth of it in the other direction
};

struct Path {
  PathType type = PathType::kDisconnected;
  double bandwidth = 0;    // GB/s, of its narrowest link
  std::vector<int> links;  // from end to end
  bool from_gpu = false;
  // Intel's PCIe root cuts what GPUs send each other into 64-byte packets: 1.2 of the bytes.
  bool through_intel_root = false;

  int hops() const { return static_cast<int>(links.size()); }
};

struct Fabric {
  std::vector<Link> links;
  std::vector<std::vector<Path>> gpu_to_gpu;  // [from][to]
  std::vector<std::vector<Path>> gpu_to_nic;
  std::vector<std::vector<Path>> nic_to_gpu;
  std::vector<Path> gpu_to_nvswitch;  // empty without NVSwitch
  std::vector<Path> nvswitch_to_gpu;

  bool has_nvswitch() const { return !gpu_to_nvswitch.empty(); }
};

// Network cards are left out where `with_network` is false: NCCL does not look at them when all
// ranks are in one node. Where GPUs reach a card's own GPU over NVLink, and that is faster than
// their own way or avoids the processor, they send through it (PXN).
Fabric MakeFabric(const Node& node, bool with_network);

}  // namespace stepcast::nccl
