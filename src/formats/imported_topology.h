#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/node_type.h"

namespace stepcast::formats {

// A machine as some tool described it.
struct ImportedTopology {
  topology::NodeType node_type;  // without name and GPU memory
  std::optional<topology::Fabric> fabric;
  // Sentences without a full stop: what the input does not tell and what was taken instead, what
  // was left out.
  std::vector<std::string> notes;
};

// The user chooses what an import makes of an input that lists no NVLinks although its GPU type has
// some.
enum class MissingNvLinks : std::uint8_t {
  kRefuse,  // topology.no-nvlinks
  kAssume,  // all of a GPU's, to each other GPU of a small node or to switches
  kNone,    // there are none
};

// The user's additions to it.
struct ImportOptions {
  std::string gpu{};                     // names topologies/gpus/<gpu>.yaml; empty: not given
  std::optional<Bandwidth> nic_speed{};  // of each NIC's port, where the input does not tell
  // The NICs that join nodes, by the input's names; {"all"}: all. Empty: the importer's rule.
  std::vector<std::string> nics{};
  MissingNvLinks missing_nvlinks = MissingNvLinks::kRefuse;

  bool AllNics() const { return nics.size() == 1 && nics.front() == "all"; }
};

// Latencies, which no such format has: those of topologies/*.yaml, of the order of measured
// peer-to-peer latencies; the NIC's is InfiniBand HDR's specified port latency.
inline constexpr Time kNvLinkLatency = Nanoseconds(250);
inline constexpr Time kPcieLatency = Nanoseconds(150);
inline constexpr Time kCpuLatency = Nanoseconds(200);
inline constexpr Time kPortLatency = Nanoseconds(600);
inline constexpr const char* kLatencyNote =
    "the input has no latencies: NVLink 250 ns, PCIe 150 ns, between CPUs 200 ns, a NIC's port "
    "600 ns are general knowledge";
inline constexpr const char* kFabricNote =
    "the input says nothing of what joins nodes: one non-blocking switch at the speed of the NICs' "
    "ports";

// What the links between two CPUs of a host carry in one direction, by the rates of their links: as
// many as two-socket servers for GPUs have, bits of data a transfer. NCCL takes a fraction of that to
// search with (src/graph/topo.h), which is no rate. Where the type is not told: that of the slowest
// since 2017.
inline Bandwidth BetweenCpus(std::optional<topology::Processor> processor) {
  using topology::Processor;
  const auto links = [](int count, double gigatransfers, int bits) {
    constexpr double kBitsPerByte = 8;
    return Bandwidth::BytesPerSecond(
        static_cast<std::int64_t>(count * gigatransfers * 1e9 * bits / kBitsPerByte));
  };
  switch (processor.value_or(Processor::kIntelSkylake)) {
    case Processor::kIntelBroadwell:
      return links(2, 9.6, 16);  // QPI
    case Processor::kIntelSkylake:
      return links(2, 10.4, 16);  // UPI
    case Processor::kIntelSapphireRapids:
      return links(3, 16, 24);  // UPI 2.0
    case Processor::kIntelEmeraldRapids:
      return links(3, 20, 24);
    case Processor::kAmd:
      return links(3, 18, 16);  // xGMI of Rome and Milan; of later ones 32 GT/s
    case Processor::kArm:
      return Bandwidth::GigabytesPerSecond(6);  // as NCCL: they have no links in common
    case Processor::kPower9:
      return Bandwidth::GigabytesPerSecond(64);  // X bus
  }
  return {};
}
inline const char* BetweenUnknownCpusNote() {
  return "the input does not tell the type of the CPUs: two UPI links of 10.4 GT/s between them, "
         "41.6 GB/s";
}

// The default where the input does not describe the network between nodes.
inline topology::Fabric OneSwitch(Bandwidth port) {
  topology::Fabric fabric;
  fabric.kind = topology::FabricKind::kOneSwitch;
  fabric.link = {kPortLatency, port};
  return fabric;
}

}  // namespace stepcast::formats
