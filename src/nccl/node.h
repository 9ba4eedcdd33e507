#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/nccl/version.h"

namespace stepcast::nccl {

// A machine as detected by NCCL, with only the GPUs of the communicator.

// The PCIe switch or CPU to which a device is connected.
struct PcieSlot {
  int pcie_switch = -1;  // index in Node::switches; -1: connected to the CPU
  int socket = 0;        // only for a device without a switch
  double bandwidth = 0;  // GB/s of the device's PCIe link; see PcieBandwidth
};

struct PcieSwitch {
  int socket = 0;
  double bandwidth = 0;  // GB/s of the link to the CPU
};

struct Gpu {
  int compute_capability = 0;  // for example, 90 for capability 9.0
  int nvswitch_links = 0;      // NVLinks into NVSwitch; 0: no NVSwitch
  PcieSlot slot;
};

// The NVLinks that connect two GPUs directly.
struct NvlinkBundle {
  int a = 0;
  int b = 0;
  int links = 0;
};

struct Nic {
  double bandwidth = 0;  // GB/s of the card's port; see PortBandwidth
  double latency = 0;    // us, from the network plug-in; 0 for InfiniBand and RoCE
  bool reduces = false;  // the network can reduce for this card (SHARP)
  PcieSlot slot;
};

struct Node {
  std::vector<Gpu> gpus;  // sorted by rank
  std::vector<NvlinkBundle> nvlinks;
  std::vector<PcieSwitch> switches;
  std::vector<Nic> nics;
  Cpu cpu = Cpu::kIntelSapphireRapids;
};

// The kinds of paths between two devices of a node, nearest kind first (NVIDIA/nccl,
// src/graph/topo.h).
enum class PathType : std::uint8_t {
  kLocal,         // the same device
  kNvlink,        // NVLink, directly or through NVSwitch
  kNvlinkBridge,  // NVLink through another GPU
  kC2c,           // chip-to-chip link
  kPix,           // one PCIe switch
  kPxb,           // several PCIe switches
  kP2c,           // chip-to-chip link to the CPU, then PCIe
  kPxn,           // to a network card through a GPU nearer to the card
  kPhb,           // the PCIe root of the CPU
  kSys,           // the link between sockets
  kNet,           // the network
  kDisconnected
};

constexpr std::string_view Name(PathType type) {
  constexpr std::string_view kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                         "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames[static_cast<unsigned>(type)];
}

// Returns the next kind of path, which is more distant.
constexpr PathType Farther(PathType type) {
  return static_cast<PathType>(static_cast<unsigned>(type) + 1);
}

// The links of a node and the paths over them (NVIDIA/nccl, src/graph/paths.cc).

// One direction of a link. Links i and i ^ 1 are the two directions of the same link.
struct Link {
  std::int64_t bandwidth =
      0;  // MB/s; an integer, so that subtracting and adding bandwidth is exact
  bool pcie = false;
  bool nvlink = false;
  // Whether the link leads to a GPU before Ampere. Network writes to this GPU also use an eighth of
  // their bandwidth in the opposite direction.
  bool slow_receiver = false;
};

struct Path {
  PathType type = PathType::kDisconnected;
  double bandwidth = 0;    // GB/s of the path's slowest link
  std::vector<int> links;  // from start to end
  bool from_gpu = false;
  // Whether the path crosses Intel's PCIe root, which splits traffic between GPUs into 64-byte
  // packets. These packets add 20 % to the bytes.
  bool through_intel_root = false;

  int hops() const { return static_cast<int>(links.size()); }
};

struct Fabric {
  std::vector<Link> links;
  std::vector<std::vector<Path>> gpu_to_gpu;  // indexed by [from][to]
  std::vector<std::vector<Path>> gpu_to_nic;
  std::vector<std::vector<Path>> nic_to_gpu;
  std::vector<Path> gpu_to_nvswitch;  // empty if there is no NVSwitch
  std::vector<Path> nvswitch_to_gpu;

  bool has_nvswitch() const { return !gpu_to_nvswitch.empty(); }
};

// Returns the links and paths of a node. If `with_network` is false, network cards are omitted, as
// in NCCL if all ranks are in one node. A GPU may send through another GPU that is nearer to a
// network card (PXN) under two conditions: NVLink connects the GPUs, and the path is faster than
// the sender's own path to the card or avoids the CPU.
Fabric MakeFabric(const Node& node, bool with_network);

}  // namespace stepcast::nccl
