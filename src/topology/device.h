#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/rates.h"

namespace stepcast::topology {

// The data sheet of a GPU, read from topologies/gpus/*.yaml. Values are peaks. Calibration profiles
// contain achieved values.
struct Gpu {
  std::string name;  // "h100-sxm"; its default calibration profile has the same name
  Bytes memory;
  Bandwidth memory_bandwidth;
  Bytes l2_cache{};  // zero: unknown
  std::array<FlopRate, kDataTypeCount>
      peak;  // dense, indexed by DataType; zero: the device does not support the type
  int multiprocessors = 0;
  int power_limit = 0;         // power limit of the board in watts; 0: unknown
  int compute_capability = 0;  // 90 means CUDA's 9.0; 0: not a CUDA device

  FlopRate PeakOf(DataType type) const { return peak[static_cast<std::size_t>(type)]; }
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// The kinds of devices in a cluster's graph. The kinds up to kNic belong to a node; the switches
// after kNic belong to the fabric.
enum class DeviceKind : std::uint8_t {
  kGpu,
  kNvSwitch,
  kPcieSwitch,
  kCpu,
  kNic,
  kLeafSwitch,
  kSpineSwitch,
};
inline constexpr int kNodeDeviceKinds = 5;

enum class LinkKind : std::uint8_t { kNvLink, kPcie, kCpuInterconnect, kNetwork };

// Returns whether routes may pass through the device. GPUs and NICs only start and end routes.
constexpr bool Forwards(DeviceKind kind) {
  return kind != DeviceKind::kGpu && kind != DeviceKind::kNic;
}

// Returns the device kind's name in topology files and output: gpu, nvswitch, pcie_switch, cpu,
// nic, leaf or spine.
constexpr std::string_view Name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "gpu";
    case DeviceKind::kNvSwitch:
      return "nvswitch";
    case DeviceKind::kPcieSwitch:
      return "pcie_switch";
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kNic:
      return "nic";
    case DeviceKind::kLeafSwitch:
      return "leaf";
    case DeviceKind::kSpineSwitch:
      return "spine";
  }
  return "";
}

// Returns the link kind's name in topology files and output: nvlink, pcie, cpu-interconnect or
// network.
constexpr std::string_view Name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvLink:
      return "nvlink";
    case LinkKind::kPcie:
      return "pcie";
    case LinkKind::kCpuInterconnect:
      return "cpu-interconnect";
    case LinkKind::kNetwork:
      return "network";
  }
  return "";
}

// Parses a device kind's name that a node description may use. Returns nullopt for any other name.
constexpr std::optional<DeviceKind> NodeDeviceKindFromName(std::string_view name) {
  for (int i = 0; i < kNodeDeviceKinds; ++i) {
    if (Name(static_cast<DeviceKind>(i)) == name) return static_cast<DeviceKind>(i);
  }
  return std::nullopt;
}

constexpr std::optional<LinkKind> NodeLinkKindFromName(std::string_view name) {
  for (LinkKind kind : {LinkKind::kNvLink, LinkKind::kPcie, LinkKind::kCpuInterconnect}) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace stepcast::topology
