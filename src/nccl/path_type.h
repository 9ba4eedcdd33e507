#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast::nccl {

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

}  // namespace stepcast::nccl
