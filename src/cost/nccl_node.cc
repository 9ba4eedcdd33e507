#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "src/cost/nccl_setting.h"
#include "src/nccl/version.h"

namespace stepcast::cost {
namespace {

using topology::DeviceKind;
using topology::LinkKind;
using topology::LinkRule;

// The fraction of a PCIe link's raw bandwidth that NCCL assumes (NVIDIA/nccl, src/graph/topo.cc:
// 12, 24, 48 GB/s for generations 3, 4, 5 with 16 lanes).
constexpr double kPciePart = 0.75;

double Gigabytes(Bandwidth bandwidth) {
  return static_cast<double>(bandwidth.bytes_per_second()) / 1e9;
}

nccl::Cpu CpuOf(topology::Processor processor) {
  switch (processor) {
    case topology::Processor::kIntelBroadwell:
      return nccl::Cpu::kIntelBroadwell;
    case topology::Processor::kIntelSkylake:
      return nccl::Cpu::kIntelSkylake;
    case topology::Processor::kIntelSapphireRapids:
      return nccl::Cpu::kIntelSapphireRapids;
    case topology::Processor::kIntelEmeraldRapids:
      return nccl::Cpu::kIntelEmeraldRapids;
    case topology::Processor::kAmd:
      return nccl::Cpu::kAmd;
    case topology::Processor::kArm:
      return nccl::Cpu::kArm;
    case topology::Processor::kPower9:
      return nccl::Cpu::kPower9;
  }
  return nccl::Cpu::kIntelSapphireRapids;
}

// A pair of linked devices, seen from the device of kind `kind`.
struct Neighbour {
  int self = 0;
  int other = 0;
};

// The links between devices of two kinds, whichever kind the rule names first.
std::vector<Neighbour> LinksBetween(const LinkRule& rule, DeviceKind self, DeviceKind other) {
  std::vector<Neighbour> links;
  if (rule.from.kind == self && rule.to.kind == other) {
    for (const auto& [a, b] : topology::PairsOf(rule)) links.push_back({a, b});
  } else if (rule.from.kind == other && rule.to.kind == self) {
    for (const auto& [a, b] : topology::PairsOf(rule)) links.push_back({b, a});
  }
  return links;
}

// The PCIe slots of devices of a kind, by index.
std::vector<nccl::PcieSlot> SlotsOf(const topology::NodeType& node, DeviceKind kind) {
  std::vector<std::optional<nccl::PcieSlot>> slots(static_cast<std::size_t>(node.Count(kind)));
  for (const LinkRule& rule : node.links) {
    const double part = rule.kind == LinkKind::kPcie ? kPciePart : 1;
    const double bandwidth = part * rule.count * Gigabytes(rule.link.bandwidth);
    for (const Neighbour& link : LinksBetween(rule, kind, DeviceKind::kPcieSwitch)) {
      auto& slot = slots[static_cast<std::size_t>(link.self)];
      if (!slot) slot = {.pcie_switch = link.other, .socket = 0, .bandwidth = bandwidth};
    }
    for (const Neighbour& link : LinksBetween(rule, kind, DeviceKind::kCpu)) {
      auto& slot = slots[static_cast<std::size_t>(link.self)];
      if (!slot) slot = {.pcie_switch = -1, .socket = link.other, .bandwidth = bandwidth};
    }
  }
  // The default if a topology has no links between GPUs and CPUs: PCIe generation 5, 16 lanes.
  constexpr double kDefault = 48;
  std::vector<nccl::PcieSlot> result;
  result.reserve(slots.size());
  for (const auto& slot : slots) {
    result.push_back(slot.value_or(nccl::PcieSlot{.bandwidth = kDefault}));
  }
  return result;
}

// The top switch above a PCIe switch.
struct Top {
  int at = 0;  // the switch that is linked to a processor; itself where no route leads to one
  double bandwidth = std::numeric_limits<double>::infinity();  // of the narrowest link to it
};

// NCCL's node has one level of switches (NCCL itself merges two levels of Broadcom's). Lower
// switches are merged into their top switch.
std::vector<Top> TopsOf(const topology::NodeType& node, const std::vector<nccl::PcieSwitch>& all) {
  const std::size_t count = all.size();
  std::vector<Top> tops(count);
  std::vector<bool> settled(count);
  std::deque<std::size_t> open;
  for (std::size_t i = 0; i < count; ++i) {
    tops[i].at = static_cast<int>(i);
    settled[i] = all[i].bandwidth > 0;
    if (settled[i]) open.push_back(i);
  }
  while (!open.empty()) {  // those next to a processor first, so that ways are shortest
    const std::size_t upper = open.front();
    open.pop_front();
    for (const LinkRule& rule : node.links) {
      if (rule.from.kind != DeviceKind::kPcieSwitch || rule.to.kind != DeviceKind::kPcieSwitch) {
        continue;
      }
      const double bandwidth = kPciePart * rule.count * Gigabytes(rule.link.bandwidth);
      for (const auto& [a, b] : topology::PairsOf(rule)) {
        const auto from = static_cast<std::size_t>(a);
        const auto to = static_cast<std::size_t>(b);
        if (from != upper && to != upper) continue;
        const std::size_t lower = from == upper ? to : from;
        if (settled[lower]) continue;
        settled[lower] = true;
        tops[lower] = {tops[upper].at, std::min(tops[upper].bandwidth, bandwidth)};
        open.push_back(lower);
      }
    }
  }
  return tops;
}

}  // namespace

GpuLinks LinksOfAGpu(const topology::NodeType& node, topology::LinkKind kind) {
  GpuLinks links;
  std::int64_t sum = 0;
  for (const topology::LinkRule& rule : node.links) {
    // NVLink to a processor is the GPU's path to host memory, and no path to other devices.
    const bool to_processor =
        rule.from.kind == topology::DeviceKind::kCpu || rule.to.kind == topology::DeviceKind::kCpu;
    if (rule.kind != kind || (to_processor && kind == topology::LinkKind::kNvLink)) continue;
    for (const auto& [from, to] : topology::PairsOf(rule)) {
      const bool begins = rule.from.kind == topology::DeviceKind::kGpu && from == 0;
      const bool ends = rule.to.kind == topology::DeviceKind::kGpu && to == 0;
      if (!begins && !ends) continue;
      links.count += rule.count;
      sum += rule.count * rule.link.bandwidth.bytes_per_second();
    }
  }
  links.bandwidth = Bandwidth::BytesPerSecond(sum);
  return links;
}

nccl::Node NcclNode(const topology::NodeType& node, int compute_capability, Bandwidth port,
                    std::span<const int> gpus) {
  nccl::Node result;
  result.cpu = CpuOf(node.processor);
  const auto switches = static_cast<std::size_t>(node.Count(DeviceKind::kPcieSwitch));
  result.switches.resize(switches);
  std::vector<int> to_nvswitch(static_cast<std::size_t>(node.Count(DeviceKind::kGpu)));
  std::vector<int> position(to_nvswitch.size(), -1);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    position[static_cast<std::size_t>(gpus[i])] = static_cast<int>(i);
  }
  for (const LinkRule& rule : node.links) {
    for (const Neighbour& link : LinksBetween(rule, DeviceKind::kGpu, DeviceKind::kNvSwitch)) {
      to_nvswitch[static_cast<std::size_t>(link.self)] += rule.count;
    }
    for (const Neighbour& link : LinksBetween(rule, DeviceKind::kPcieSwitch, DeviceKind::kCpu)) {
      nccl::PcieSwitch& pcie = result.switches[static_cast<std::size_t>(link.self)];
      if (pcie.bandwidth > 0) continue;
      pcie.socket = link.other;
      pcie.bandwidth = kPciePart * rule.count * Gigabytes(rule.link.bandwidth);
    }
    if (rule.kind == LinkKind::kNvLink && rule.from.kind == DeviceKind::kGpu &&
        rule.to.kind == DeviceKind::kGpu) {
      for (const auto& [a, b] : topology::PairsOf(rule)) {
        const int from = position[static_cast<std::size_t>(a)];
        const int to = position[static_cast<std::size_t>(b)];
        if (from >= 0 && to >= 0) result.nvlinks.push_back({from, to, rule.count});
      }
    }
  }
  const std::vector<Top> tops = TopsOf(node, result.switches);
  const auto slots_of = [&](DeviceKind kind) {
    std::vector<nccl::PcieSlot> slots = SlotsOf(node, kind);
    for (nccl::PcieSlot& slot : slots) {
      if (slot.pcie_switch < 0) continue;
      const Top& top = tops[static_cast<std::size_t>(slot.pcie_switch)];
      slot.pcie_switch = top.at;
      slot.bandwidth = std::min(slot.bandwidth, top.bandwidth);
    }
    return slots;
  };
  const std::vector<nccl::PcieSlot> gpu_slots = slots_of(DeviceKind::kGpu);
  for (int gpu : gpus) {
    const auto at = static_cast<std::size_t>(gpu);
    result.gpus.push_back({.compute_capability = compute_capability,
                           .nvswitch_links = to_nvswitch[at],
                           .slot = gpu_slots[at]});
  }
  if (port > Bandwidth()) {
    for (const nccl::PcieSlot& slot : slots_of(DeviceKind::kNic)) {
      result.nics.push_back({.bandwidth = Gigabytes(port), .slot = slot});
    }
  }
  return result;
}

}  // namespace stepcast::cost
