#include "src/scenario/topology_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/source_names.h"
#include "src/topology/faults.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

using topology::Fabric;
using topology::FabricKind;
using topology::Fault;
using topology::FlatCluster;
using topology::LinkRule;
using topology::LinkSpec;
using topology::NodeType;

constexpr std::size_t kMostLinkRules = 1000;

void ReadSources(MappingReader& reader, Diagnostics& diagnostics) {
  if (const auto sources = reader.ReadSequence("sources", Need::kOptional)) {
    for (const Node& source : *sources) ReadText(source, diagnostics);
  }
}

LinkSpec ReadLink(MappingReader& reader) {
  LinkSpec link;
  reader.Required("latency", link.latency);
  reader.Required("bandwidth", link.bandwidth);
  return link;
}

std::optional<topology::DeviceSet> ReadDevices(
    MappingReader& reader, std::string_view key,
    const std::array<int, topology::kNodeDeviceKinds>& devices) {
  const auto text = reader.ReadText(key, Need::kRequired);
  if (!text) return std::nullopt;
  auto set = topology::ParseDeviceSet(*text, devices);
  if (set) return *std::move(set);
  reader.Report(key, "topology.bad-devices",
                fmt::format("{}: {}", Quoted(reader.PathOf(key)), set.error().message),
                set.error().hint);
  return std::nullopt;
}

std::optional<LinkRule> ReadLinkRule(const Node& node, bool devices_are_right,
                                     const std::array<int, topology::kNodeDeviceKinds>& devices,
                                     Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  LinkRule rule;
  reader.Required("kind", rule.kind,
                  {{"nvlink", topology::LinkKind::kNvLink},
                   {"pcie", topology::LinkKind::kPcie},
                   {"cpu-interconnect", topology::LinkKind::kCpuInterconnect}});
  std::optional<topology::DeviceSet> from;
  std::optional<topology::DeviceSet> to;
  if (devices_are_right) {
    from = ReadDevices(reader, "from", devices);
    to = ReadDevices(reader, "to", devices);
  } else {  // how many there are is not known, so there is nothing to compare with
    reader.ReadText("from", Need::kRequired);
    reader.ReadText("to", Need::kRequired);
  }
  reader.Optional("join", rule.join, {topology::Join::kInOrder, topology::Join::kAllToAll});
  reader.Optional("count", rule.count, {1, topology::kMostParallelLinks});
  rule.link = ReadLink(reader);
  reader.Finish();
  if (reader.failed() || !from || !to) return std::nullopt;
  rule.from = *std::move(from);
  rule.to = *std::move(to);
  return rule;
}

// Range of host speeds relative to the reference.
constexpr DecimalRange kHostSpeeds = {0.1, 10};

void ReadHost(MappingReader& reader, NodeType& node_type) {
  reader.Optional("speed", node_type.host_speed, kHostSpeeds);
  if (reader.Has("speed") && !reader.Has("memory") && !reader.Has("memory_bandwidth") &&
      !reader.Has("nvme")) {
    return;
  }
  topology::Host host;
  reader.Required("memory", host.memory, Zero::kRefused);
  reader.Required("memory_bandwidth", host.memory_bandwidth);
  reader.Section("nvme", Need::kOptional, [&](MappingReader& nvme) {
    nvme.Required("capacity", host.nvme, Zero::kRefused);
    nvme.Required("read", host.nvme_read);
    nvme.Required("write", host.nvme_write);
  });
  node_type.host = host;
}

// "750 W": a whole number of watts.
std::optional<int> ReadWatts(MappingReader& reader, std::string_view key) {
  const auto text = reader.ReadText(key, Need::kOptional);
  if (!text) return std::nullopt;
  constexpr int kMostWatts = 100'000;
  std::string_view number = *text;
  if (number.ends_with('W')) {
    number.remove_suffix(1);
    while (number.ends_with(' ')) number.remove_suffix(1);
    int watts = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), watts);
    if (error == std::errc() && end == number.data() + number.size() && watts >= 1 &&
        watts <= kMostWatts) {
      return watts;
    }
  }
  reader.Report(key, "input.bad-quantity",
                fmt::format("the power must be an integer number of watts, from 1 to {}: {}",
                            kMostWatts, Quoted(*text)),
                "write for example '700 W'");
  return std::nullopt;
}

// Range of a power limit: from about what drivers allow to the board's design power. 200 of 700 W
// on H100 SXM, 100 of 400 W on A100 SXM (nvidia-smi -q -d POWER).
void LimitPower(MappingReader& reader, int watts, topology::Gpu& gpu) {
  constexpr int kLeastPart = 5;
  const int most = gpu.power_limit;
  if (most > 0 && (watts > most || watts < most / kLeastPart)) {
    reader.Report("power_limit", "topology.power-limit",
                  fmt::format("the power limit of {} must be between {} and {} W, not {} W",
                              gpu.name, most / kLeastPart, most, watts),
                  "remove the key to use the limit in the GPU's file (power_limit_watts)");
    return;
  }
  gpu.power_limit = watts;
}

// A note about a GPU named without its form; empty if it was named in full.
std::string FormNote(std::string_view named, const topology::Gpu& gpu) {
  if (named == gpu.name || named.ends_with(".yaml")) return "";
  return fmt::format(
      "gpu: {} is interpreted as {}; for another form factor, write the full name of the GPU",
      named, gpu.name);
}

// The GPU's data sheet, and the node without its name.
std::optional<topology::Gpu> ReadNode(MappingReader& reader, NodeType& node_type, std::string& note,
                                      Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<topology::Gpu> gpu;
  if (const auto name = reader.ReadText("gpu", Need::kRequired)) {
    gpu = FindGpu(*name, FolderOf(reader.node().file()), reader.LocationOf("gpu"), diagnostics);
    if (gpu) note = FormNote(*name, *gpu);
  }
  if (const auto watts = ReadWatts(reader, "power_limit"); watts && gpu) {
    LimitPower(reader, *watts, *gpu);
  }
  using enum topology::Processor;
  reader.Optional("processor", node_type.processor,
                  {kIntelBroadwell, kIntelSkylake, kIntelSapphireRapids, kIntelEmeraldRapids, kAmd,
                   kArm, kPower9});
  bool devices_are_right = false;
  if (auto devices = reader.ReadMapping("devices", Need::kRequired)) {
    for (int i = 0; i < topology::kNodeDeviceKinds; ++i) {
      const auto kind = static_cast<topology::DeviceKind>(i);
      const bool is_gpu = kind == topology::DeviceKind::kGpu;
      const auto count =
          devices->ReadInteger(Name(kind), is_gpu ? Need::kRequired : Need::kOptional,
                               {is_gpu ? 1 : 0, topology::kMostNodeDevices});
      node_type.devices[static_cast<std::size_t>(i)] = static_cast<int>(count.value_or(0));
    }
    devices->Finish();
    devices_are_right = !devices->failed();
  }
  if (const auto links = reader.ReadSequence("links", Need::kOptional)) {
    if (links->size() > kMostLinkRules) {
      reader.Report(
          "links", "input.out-of-range",
          fmt::format("'links' can have at most {} entries, not {}", kMostLinkRules, links->size()),
          "use one entry for many pairs: 'from: gpu, to: nvswitch, join: all-to-all'");
    } else {
      for (const Node& link : *links) {
        auto rule = ReadLinkRule(link, devices_are_right, node_type.devices, diagnostics);
        if (rule) node_type.links.push_back(*std::move(rule));
      }
    }
  }
  reader.Section("host", Need::kOptional, [&](MappingReader& host) { ReadHost(host, node_type); });
  reader.Finish();
  if (diagnostics.size() > before || !gpu) return std::nullopt;
  node_type.gpu = gpu->name;
  node_type.gpu_memory = gpu->memory;
  return gpu;
}

}  // namespace

std::optional<topology::RouteChoice> ReadRouting(MappingReader& reader, const char* key) {
  using enum topology::RouteChoice;
  return reader.ReadWord<topology::RouteChoice>(key, Need::kOptional, {kAdaptive, kStatic, kEcmp});
}

namespace {

void ReadSockets(MappingReader& reader, Fabric& fabric) {
  reader.Section("sockets", Need::kOptional, [&](MappingReader& section) {
    if (fabric.transport != Transport::kSockets) {
      reader.Report("sockets", "topology.no-sockets",
                    fmt::format("this fabric does not use sockets, because its transport is '{}'",
                                Name(fabric.transport)),
                    "write transport: sockets, or remove sockets");
    }
    section.Optional("flow", fabric.sockets.flow);
    section.Optional("per_channel", fabric.sockets.per_channel, {1, 64});
  });
}

std::optional<Fabric> ReadFabric(MappingReader& reader, const NodeType& node_type) {
  Fabric fabric;
  const auto kind = reader.ReadWord<FabricKind>(
      "kind", Need::kRequired,
      {FabricKind::kOneSwitch, FabricKind::kRailOptimised, FabricKind::kFatTree});
  // Without its kind, the keys of a fabric are unknown.
  if (!kind) return std::nullopt;
  fabric.kind = *kind;
  reader.Section("link", Need::kRequired, fabric.link, ReadLink);
  ReadTransport(reader, Need::kOptional, fabric.transport);
  ReadSockets(reader, fabric);
  reader.Optional("sharp", fabric.sharp);
  const int nics = node_type.Count(topology::DeviceKind::kNic);
  if (*kind != FabricKind::kOneSwitch) {
    fabric.routing.choice =
        ReadRouting(reader, "routing").value_or(topology::RouteChoice::kAdaptive);
    reader.Optional("connections", fabric.connections, {1, topology::kMostConnections});
  }
  if (*kind == FabricKind::kRailOptimised) {
    fabric.rails = std::max(nics, 1);
    reader.Required("nodes_per_unit", fabric.nodes_per_unit, {1, topology::kMostDevices});
    reader.Optional("rails", fabric.rails, {1, topology::kMostNodeDevices});
    reader.Required("spines", fabric.spines, {1, topology::kMostSpines});
    reader.Section("uplink", Need::kRequired, fabric.uplink, ReadLink);
  } else if (*kind == FabricKind::kFatTree) {
    reader.Required("nodes_per_leaf", fabric.nodes_per_unit, {1, topology::kMostDevices});
    reader.Required("spines", fabric.spines, {1, topology::kMostSpines});
    reader.Section("uplink", Need::kRequired, [&](MappingReader& uplink) {
      uplink.Required("latency", fabric.uplink.latency);
    });
    const auto ratio = reader.ReadDecimal("oversubscription", Need::kOptional, {0.001, 1e6});
    if (!reader.failed()) SetOversubscription(fabric, nics, ratio.value_or(1));
  }
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  return fabric;
}

// faults.h calls the nodes of a leaf a unit; in a fat tree's file they are nodes_per_leaf.
std::string FieldOf(const Fault& fault, const std::optional<Fabric>& fabric) {
  if (fabric && fabric->kind == FabricKind::kFatTree && fault.field == "fabric.nodes_per_unit") {
    return "fabric.nodes_per_leaf";
  }
  return fault.field;
}

std::optional<Topology> ReadNodes(MappingReader& reader, Diagnostics& diagnostics) {
  Topology topology;
  NodeDescription description;
  const auto name = reader.ReadText("name", Need::kRequired);
  ReadSources(reader, diagnostics);
  if (auto node = reader.ReadMapping("node", Need::kRequired)) {
    topology.gpu = ReadNode(*node, description.node_type, topology.note, diagnostics);
  }
  if (auto fabric = reader.ReadMapping("fabric", Need::kOptional)) {
    description.fabric = ReadFabric(*fabric, description.node_type);
  }
  reader.Finish();
  if (reader.failed() || !topology.gpu) return std::nullopt;

  description.node_type.name = *name;
  for (const Fault& fault : FaultsOf(description.node_type, description.fabric, 1)) {
    const std::string field = FieldOf(fault, description.fabric);
    diagnostics.push_back({"topology.impossible", Follow(reader.node(), field).last.location(),
                           fmt::format("{}: {}", Quoted(field), fault.message), fault.hint});
  }
  if (reader.failed()) return std::nullopt;
  topology.name = *name;
  topology.description = std::move(description);
  return topology;
}

std::optional<Topology> ReadFlat(MappingReader& reader, Diagnostics& diagnostics) {
  Topology topology;
  FlatCluster flat;
  const auto name = reader.ReadText("name", Need::kOptional);
  ReadSources(reader, diagnostics);
  const auto devices = reader.ReadInteger("devices", Need::kRequired, {1, topology::kMostDevices});
  if (const auto gpu = reader.ReadText("gpu", Need::kOptional)) {
    topology.gpu =
        FindGpu(*gpu, FolderOf(reader.node().file()), reader.LocationOf("gpu"), diagnostics);
    if (topology.gpu) topology.note = FormNote(*gpu, *topology.gpu);
  }
  const auto memory = reader.ReadBytes(
      "memory", reader.Has("gpu") ? Need::kOptional : Need::kRequired, Zero::kRefused);
  reader.Section("link", Need::kOptional, flat.link, ReadLink);
  if (reader.Has("nodes")) {
    reader.ReadNode("nodes", Need::kOptional, "nothing");
    reader.Report("nodes", "topology.nodes", "a flat cluster has no nodes",
                  "remove 'nodes': the key 'devices' is the total number of devices");
  }
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  flat.devices = static_cast<int>(*devices);
  flat.memory = memory ? *memory : topology.gpu->memory;
  if (topology.gpu) flat.gpu = topology.gpu->name;
  for (const Fault& fault : FaultsOf(flat)) {
    diagnostics.push_back({"topology.impossible",
                           Follow(reader.node(), fault.field).last.location(),
                           fmt::format("{}: {}", Quoted(fault.field), fault.message), fault.hint});
  }
  if (reader.failed()) return std::nullopt;
  topology.name = name.value_or("flat cluster");
  topology.description = std::move(flat);
  return topology;
}

}  // namespace

std::optional<Topology> ReadTopology(const Node& node, Diagnostics& diagnostics) {
  enum class Kind { kNodes, kFlat };
  MappingReader reader(node, diagnostics);
  const auto kind = reader.ReadWord<Kind>("kind", Need::kOptional,
                                          {{"nodes", Kind::kNodes}, {"flat", Kind::kFlat}});
  // The keys of an unknown kind are unknown.
  if (reader.failed()) return std::nullopt;
  return kind.value_or(Kind::kNodes) == Kind::kFlat ? ReadFlat(reader, diagnostics)
                                                    : ReadNodes(reader, diagnostics);
}

Result<Topology> LoadTopology(const std::string& path) { return LoadWith(path, ReadTopology); }

std::optional<topology::Cluster> BuildCluster(const Topology& topology,
                                              std::optional<std::int64_t> nodes,
                                              const Location& location, Diagnostics& diagnostics,
                                              const RoutingRequest& routing,
                                              std::optional<int> gpus_per_node) {
  if (const auto* flat = std::get_if<FlatCluster>(&topology.description)) {
    if (!nodes) return topology::Cluster(*flat);
    diagnostics.push_back({"topology.nodes", location,
                           fmt::format("a flat cluster has no nodes: {}", *nodes),
                           "remove 'nodes': the key 'devices' of this cluster is the total number "
                           "of devices"});
    return std::nullopt;
  }
  const auto& description = std::get<NodeDescription>(topology.description);
  if (!nodes) {
    diagnostics.push_back(
        {"topology.nodes", location,
         fmt::format("the number of nodes of {} is missing", Quoted(topology.name)),
         "write for example 'nodes: 2'"});
    return std::nullopt;
  }
  if (*nodes < 1 || *nodes > topology::kMostDevices) {
    diagnostics.push_back({"topology.nodes", location,
                           fmt::format("the number of nodes must be from 1 to {}: {}",
                                       topology::kMostDevices, *nodes),
                           "write for example 'nodes: 2'"});
    return std::nullopt;
  }
  const std::vector<Fault> faults =
      FaultsOf(description.node_type, description.fabric, static_cast<int>(*nodes));
  for (const Fault& fault : faults) {
    diagnostics.push_back(
        {"topology.nodes", location,
         fmt::format("{} nodes of {}: {}", *nodes, Quoted(topology.name), fault.message),
         fault.hint});
  }
  if (!faults.empty()) return std::nullopt;
  std::optional<Fabric> fabric = description.fabric;
  if (fabric && routing.choice) fabric->routing.choice = *routing.choice;
  if (fabric && routing.seed) fabric->routing.seed = *routing.seed;
  return topology::Cluster(description.node_type, std::move(fabric), static_cast<int>(*nodes),
                           gpus_per_node);
}

}  // namespace stepcast::scenario
