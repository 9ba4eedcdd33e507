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

std::optional<LinkSpec> ReadLink(MappingReader& reader, std::string_view key, Need need) {
  auto link = reader.ReadMapping(key, need);
  if (!link) return std::nullopt;
  const auto latency = link->ReadTime("latency", Need::kRequired, Zero::kAllowed);
  const auto bandwidth = link->ReadBandwidth("bandwidth", Need::kRequired);
  link->Finish();
  if (!latency || !bandwidth) return std::nullopt;
  return LinkSpec{*latency, *bandwidth};
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
  const auto kind = reader.ReadWord<topology::LinkKind>(
      "kind", Need::kRequired,
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
  const auto join = reader.ReadNamed("join", Need::kOptional,
                                     {topology::Join::kInOrder, topology::Join::kAllToAll});
  const auto count =
      reader.ReadInteger("count", Need::kOptional, {1, topology::kMostParallelLinks});
  const auto latency = reader.ReadTime("latency", Need::kRequired, Zero::kAllowed);
  const auto bandwidth = reader.ReadBandwidth("bandwidth", Need::kRequired);
  reader.Finish();
  if (reader.failed() || !from || !to) return std::nullopt;
  return LinkRule{*kind,
                  *std::move(from),
                  *std::move(to),
                  join.value_or(topology::Join::kInOrder),
                  static_cast<int>(count.value_or(1)),
                  {*latency, *bandwidth}};
}

// Range of host speeds relative to the reference.
constexpr DecimalRange kHostSpeeds = {0.1, 10};

void ReadHost(MappingReader& reader, NodeType& node_type) {
  node_type.host_speed = reader.ReadDecimal("speed", Need::kOptional, kHostSpeeds).value_or(1);
  if (reader.Has("speed") && !reader.Has("memory") && !reader.Has("memory_bandwidth") &&
      !reader.Has("nvme")) {
    reader.Finish();
    return;
  }
  topology::Host host;
  const auto memory = reader.ReadBytes("memory", Need::kRequired, Zero::kRefused);
  const auto bandwidth = reader.ReadBandwidth("memory_bandwidth", Need::kRequired);
  if (auto nvme = reader.ReadMapping("nvme", Need::kOptional)) {
    const auto capacity = nvme->ReadBytes("capacity", Need::kRequired, Zero::kRefused);
    const auto read = nvme->ReadBandwidth("read", Need::kRequired);
    const auto write = nvme->ReadBandwidth("write", Need::kRequired);
    nvme->Finish();
    host.nvme = capacity.value_or(Bytes());
    host.nvme_read = read.value_or(Bandwidth());
    host.nvme_write = write.value_or(Bandwidth());
  }
  reader.Finish();
  host.memory = memory.value_or(Bytes());
  host.memory_bandwidth = bandwidth.value_or(Bandwidth());
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
  if (const auto processor = reader.ReadNamed("processor", Need::kOptional,
                                              {kIntelBroadwell, kIntelSkylake, kIntelSapphireRapids,
                                               kIntelEmeraldRapids, kAmd, kArm, kPower9})) {
    node_type.processor = *processor;
  }
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
  if (auto host = reader.ReadMapping("host", Need::kOptional)) ReadHost(*host, node_type);
  reader.Finish();
  if (diagnostics.size() > before || !gpu) return std::nullopt;
  node_type.gpu = gpu->name;
  node_type.gpu_memory = gpu->memory;
  return gpu;
}

}  // namespace

std::optional<topology::RouteChoice> ReadRouting(MappingReader& reader, const char* key) {
  using enum topology::RouteChoice;
  return reader.ReadNamed(key, Need::kOptional, {kAdaptive, kStatic, kEcmp});
}

namespace {

void ReadSockets(MappingReader& reader, Fabric& fabric) {
  auto section = reader.ReadMapping("sockets", Need::kOptional);
  if (!section) return;
  if (fabric.transport != Transport::kSockets) {
    reader.Report("sockets", "topology.no-sockets",
                  fmt::format("this fabric does not use sockets, because its transport is '{}'",
                              Name(fabric.transport)),
                  "write transport: sockets, or remove sockets");
  }
  const topology::Sockets defaults;
  fabric.sockets.flow = section->ReadBandwidth("flow", Need::kOptional).value_or(defaults.flow);
  fabric.sockets.per_channel = static_cast<int>(
      section->ReadInteger("per_channel", Need::kOptional, {1, 64}).value_or(defaults.per_channel));
  section->Finish();
}

std::optional<Fabric> ReadFabric(MappingReader& reader, const NodeType& node_type) {
  Fabric fabric;
  const auto kind =
      reader.ReadNamed("kind", Need::kRequired,
                       {FabricKind::kOneSwitch, FabricKind::kRailOptimised, FabricKind::kFatTree});
  // Without its kind, the keys of a fabric are unknown.
  if (!kind) return std::nullopt;
  fabric.kind = *kind;
  if (const auto link = ReadLink(reader, "link", Need::kRequired)) fabric.link = *link;
  fabric.transport = ReadTransport(reader, Need::kOptional).value_or(fabric.transport);
  ReadSockets(reader, fabric);
  fabric.sharp = reader.ReadBoolean("sharp", Need::kOptional).value_or(false);
  const int nics = node_type.Count(topology::DeviceKind::kNic);
  if (*kind != FabricKind::kOneSwitch) {
    fabric.routing.choice =
        ReadRouting(reader, "routing").value_or(topology::RouteChoice::kAdaptive);
    fabric.connections = static_cast<int>(
        reader.ReadInteger("connections", Need::kOptional, {1, topology::kMostConnections})
            .value_or(fabric.connections));
  }
  if (*kind == FabricKind::kRailOptimised) {
    const auto nodes =
        reader.ReadInteger("nodes_per_unit", Need::kRequired, {1, topology::kMostDevices});
    const auto rails =
        reader.ReadInteger("rails", Need::kOptional, {1, topology::kMostNodeDevices});
    const auto spines = reader.ReadInteger("spines", Need::kRequired, {1, topology::kMostSpines});
    if (const auto uplink = ReadLink(reader, "uplink", Need::kRequired)) fabric.uplink = *uplink;
    fabric.nodes_per_unit = static_cast<int>(nodes.value_or(1));
    fabric.rails = static_cast<int>(rails.value_or(std::max(nics, 1)));
    fabric.spines = static_cast<int>(spines.value_or(1));
  } else if (*kind == FabricKind::kFatTree) {
    const auto nodes =
        reader.ReadInteger("nodes_per_leaf", Need::kRequired, {1, topology::kMostDevices});
    const auto spines = reader.ReadInteger("spines", Need::kRequired, {1, topology::kMostSpines});
    if (auto uplink = reader.ReadMapping("uplink", Need::kRequired)) {
      const auto latency = uplink->ReadTime("latency", Need::kRequired, Zero::kAllowed);
      uplink->Finish();
      fabric.uplink.latency = latency.value_or(Time());
    }
    const auto ratio = reader.ReadDecimal("oversubscription", Need::kOptional, {0.001, 1e6});
    fabric.nodes_per_unit = static_cast<int>(nodes.value_or(1));
    fabric.spines = static_cast<int>(spines.value_or(1));
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
  flat.link = ReadLink(reader, "link", Need::kOptional);
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
