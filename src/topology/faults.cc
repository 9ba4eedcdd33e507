#include "src/topology/faults.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/topology/graph.h"

namespace stepcast::topology {
namespace {

class Checker {
 public:
  Checker(const NodeType& node_type, const std::optional<Fabric>& fabric, int nodes)
      : node_type_(node_type), fabric_(fabric), nodes_(nodes) {}

  std::vector<Fault> Run() {
    CheckCounts();
    for (std::size_t i = 0; i < node_type_.links.size(); ++i) {
      CheckRule(node_type_.links[i], fmt::format("node.links[{}]", i));
    }
    CheckFabric();
    // Routes are only checked if all their parts are valid.
    if (faults_.empty()) CheckConnections();
    return std::move(faults_);
  }

 private:
  void Add(std::string field, std::string message, std::string hint = "") {
    faults_.push_back({std::move(field), std::move(message), std::move(hint)});
  }

  void CheckCounts() {
    for (int i = 0; i < kNodeDeviceKinds; ++i) {
      const auto kind = static_cast<DeviceKind>(i);
      const int count = node_type_.Count(kind);
      const std::string field = fmt::format("node.devices.{}", Name(kind));
      if (count < 0 || count > kMostNodeDevices) {
        Add(field, fmt::format("a node can have 0 to {} devices of one kind, "
                               "not {}",
                               kMostNodeDevices, count));
      }
    }
    const int gpus = node_type_.Count(DeviceKind::kGpu);
    if (gpus == 0)
      Add("node.devices.gpu",
          "a node needs at least one GPU, but the number of GPUs "
          "is 0");
    if (nodes_ < 1)
      Add("nodes", fmt::format("a cluster needs at least one node, but the number of "
                               "nodes is {}",
                               nodes_));
    if (gpus > 0 && nodes_ > kMostDevices / gpus) {
      Add("nodes", fmt::format("{} nodes of {} GPUs exceed the maximum of {} devices per cluster",
                               nodes_, gpus, kMostDevices));
    }
    if (nodes_ > 1 && node_type_.Count(DeviceKind::kNic) == 0) {
      Add("node.devices.nic", "several nodes communicate over NICs, but the node has no NIC",
          "add NICs and their links, or set nodes to 1");
    }
  }

  void CheckSet(const DeviceSet& set, const std::string& field) {
    const int count = node_type_.Count(set.kind);
    if (set.indices.empty()) {
      Add(field, fmt::format("names no {}", Name(set.kind)),
          fmt::format("set node.devices.{} to the number of these devices", Name(set.kind)));
    }
    std::vector<bool> seen(static_cast<std::size_t>(std::max(count, 0)));
    for (int index : set.indices) {
      if (index < 0 || index >= count) {
        Add(field, fmt::format("the device does not exist: {}{}", Name(set.kind), index),
            fmt::format("choose an existing device: the node has {} devices of kind {}, numbered "
                        "from 0",
                        count, Name(set.kind)));
        return;
      }
      if (seen[static_cast<std::size_t>(index)]) {
        Add(field, fmt::format("a device is listed twice: {}{}", Name(set.kind), index));
        return;
      }
      seen[static_cast<std::size_t>(index)] = true;
    }
  }

  void CheckLink(const LinkSpec& link, const std::string& field) {
    if (link.latency < Time() || link.latency > kMostLatency) {
      Add(field + ".latency", fmt::format("a link's latency must be between 0 and {}: {}",
                                          FormatTime(kMostLatency), FormatTime(link.latency)));
    }
    CheckBandwidth(link.bandwidth, field + ".bandwidth");
  }

  void CheckBandwidth(Bandwidth bandwidth, const std::string& field) {
    if (bandwidth <= Bandwidth()) {
      Add(field, "the bandwidth of a link must be above zero: " + FormatBandwidth(bandwidth),
          "remove the link if it does not exist");
    } else if (bandwidth > kMostBandwidth) {
      Add(field, fmt::format("the bandwidth of a link must be at most {}: {}",
                             FormatBandwidth(kMostBandwidth), FormatBandwidth(bandwidth)));
    }
  }

  void CheckRule(const LinkRule& rule, const std::string& field) {
    const std::size_t before = faults_.size();
    CheckSet(rule.from, field + ".from");
    CheckSet(rule.to, field + ".to");
    CheckLink(rule.link, field);
    if (rule.count < 1 || rule.count > kMostParallelLinks) {
      Add(field + ".count", fmt::format("the number of parallel links between two devices must be "
                                        "between 1 and {}: {}",
                                        kMostParallelLinks, rule.count));
    }
    if (faults_.size() > before) return;

    const std::size_t from = rule.from.indices.size();
    const std::size_t to = rule.to.indices.size();
    const std::size_t pairs = rule.join == Join::kInOrder ? std::max(from, to) : from * to;
    if (rule.join == Join::kInOrder && (from % to != 0 && to % from != 0)) {
      Add(field + ".join",
          fmt::format("'join' cannot distribute {} devices equally over {} devices",
                      std::max(from, to), std::min(from, to)),
          "make the larger number of devices a multiple of the smaller number, or write 'join: "
          "all-to-all'");
      return;
    }
    links_ += static_cast<std::int64_t>(pairs);
    if (links_ > kMostNodeLinks) {
      if (links_ - static_cast<std::int64_t>(pairs) <= kMostNodeLinks) {
        Add(field, fmt::format("a node can have at most {} links", kMostNodeLinks));
      }
      return;
    }
    const std::vector<std::pair<int, int>> linked = PairsOf(rule);
    if (linked.empty()) {
      Add(field, "a device cannot be linked to itself",
          "write two different devices, or two sets of devices, in 'from' and 'to'");
    }
    for (const auto& [a, b] : linked) {
      if (rule.from.kind == rule.to.kind && a == b) {
        Add(field,
            fmt::format("a device cannot be linked to itself: {}{}", Name(rule.from.kind), a),
            "to link the devices of one set with each other, write 'join: all-to-all'");
        return;
      }
    }
  }

  void CheckFabric() {
    if (!fabric_) {
      if (nodes_ > 1) {
        Add("fabric", fmt::format("{} nodes need a fabric that connects them", nodes_),
            "add a 'fabric' section, or set nodes to 1");
      }
      return;
    }
    const Fabric& fabric = *fabric_;
    const std::size_t before = faults_.size();
    CheckLink(fabric.link, "fabric.link");
    if (fabric.kind == FabricKind::kOneSwitch) return;
    if (fabric.nodes_per_unit < 1 || fabric.nodes_per_unit > kMostDevices) {
      Add("fabric.nodes_per_unit", fmt::format("a leaf switch needs at least one node below it, "
                                               "but nodes_per_unit is {}",
                                               fabric.nodes_per_unit));
    }
    if (fabric.spines < 1 || fabric.spines > kMostSpines) {
      Add("fabric.spines",
          fmt::format("a fabric must have 1 to {} spines, not {}", kMostSpines, fabric.spines));
    }
    if (fabric.kind == FabricKind::kRailOptimised &&
        (fabric.rails < 1 || fabric.rails > kMostNodeDevices)) {
      Add("fabric.rails",
          fmt::format("a unit must have 1 to {} rails, not {}", kMostNodeDevices, fabric.rails));
    }
    if (fabric.kind == FabricKind::kFatTree &&
        !(fabric.oversubscription > 0 && std::isfinite(fabric.oversubscription))) {
      Add("fabric.oversubscription",
          fmt::format("the oversubscription must be above zero: {}", fabric.oversubscription));
    }
    // The uplink bandwidth of a fat tree follows from the other values. It is only reported if
    // these are valid and it is out of range.
    if (fabric.kind == FabricKind::kRailOptimised) {
      CheckLink(fabric.uplink, "fabric.uplink");
    } else if (faults_.size() == before && node_type_.Count(DeviceKind::kNic) > 0) {
      CheckLink({fabric.uplink.latency, kMostBandwidth}, "fabric.uplink");
      CheckBandwidth(fabric.uplink.bandwidth, "fabric.oversubscription");
    }
  }

  void CheckConnections() {
    const Graph graph = BuildNodeGraph(node_type_);
    const auto [part, parts] = PartsOf(graph, [](const Link&) { return true; });
    if (parts > 1) {
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (part[i] == part[0]) continue;
        const Device& device = graph.devices[i];
        Add("node.links",
            fmt::format("the devices of the node form {} unconnected groups: no links lead from "
                        "gpu0 to {}{}",
                        parts, Name(device.kind), device.index),
            "link all devices, directly or through switches and CPUs");
        return;
      }
    }
    CheckWays(graph);
  }

  // GPUs and NICs end routes (routes.h): two of them are connected by a link of their own, or over
  // the switches and CPUs between them.
  void CheckWays(const Graph& graph) {
    const auto between_switches = [&graph](const Link& link) {
      return Forwards(graph.devices[link.from].kind) && Forwards(graph.devices[link.to].kind);
    };
    // Every GPU and NIC is a separate part.
    const std::vector<int> part = PartsOf(graph, between_switches).of;
    // The parts next to a GPU or NIC.
    std::vector<std::set<int>> forwarding(part.size());
    std::vector<std::set<int>> neighbours(part.size());
    for (const std::vector<Link>& leaving : graph.links) {
      for (const Link& link : leaving) {
        (Forwards(graph.devices[link.to].kind) ? forwarding : neighbours)[link.from].insert(
            part[link.to]);
      }
    }
    const auto meet = [&](Vertex a, Vertex b) {
      return neighbours[a].contains(part[b]) ||
             std::any_of(forwarding[a].begin(), forwarding[a].end(),
                         [&](int shared) { return forwarding[b].contains(shared); });
    };
    const int gpus = node_type_.Count(DeviceKind::kGpu);
    for (int to = 1; to < gpus; ++to) {
      for (int from = 0; from < to; ++from) {
        if (meet(static_cast<Vertex>(from), static_cast<Vertex>(to))) continue;
        Add("node.links",
            fmt::format("the only route from gpu{} to gpu{} passes through another GPU or a NIC, "
                        "but GPUs and NICs cannot forward data",
                        from, to),
            "add PCIe links that connect these GPUs");
        return;
      }
    }
    for (int gpu = 0; nodes_ > 1 && gpu < gpus; ++gpu) {
      bool found = false;
      for (int nic = 0; nic < node_type_.Count(DeviceKind::kNic) && !found; ++nic) {
        found = meet(static_cast<Vertex>(gpu), VertexOf(node_type_, DeviceKind::kNic, nic));
      }
      if (found) continue;
      Add("node.links",
          fmt::format("every route from gpu{} to a NIC passes through another GPU", gpu),
          "add PCIe links from this GPU to a NIC, because nodes communicate over NICs");
      return;
    }
  }

  const NodeType& node_type_;
  const std::optional<Fabric>& fabric_;
  const int nodes_;
  std::int64_t links_ = 0;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Fault> FaultsOf(const NodeType& node_type, const std::optional<Fabric>& fabric,
                            int nodes) {
  return Checker(node_type, fabric, nodes).Run();
}

std::vector<Fault> FaultsOf(const FlatCluster& flat) {
  std::vector<Fault> faults;
  if (flat.devices < 1 || flat.devices > kMostDevices) {
    faults.push_back(
        {"devices",
         fmt::format("a cluster must have 1 to {} devices, not {}", kMostDevices, flat.devices),
         ""});
  }
  if (flat.memory <= Bytes()) {
    faults.push_back({"memory", "a device needs memory: " + FormatBytes(flat.memory), ""});
  }
  if (flat.link && flat.link->bandwidth <= Bandwidth()) {
    faults.push_back(
        {"link.bandwidth",
         "the bandwidth of a link must be above zero: " + FormatBandwidth(flat.link->bandwidth),
         "remove 'link' if all collectives have tables"});
  }
  if (flat.link && flat.link->bandwidth > kMostBandwidth) {
    faults.push_back(
        {"link.bandwidth",
         fmt::format("the bandwidth of a link must be at most {}: {}",
                     FormatBandwidth(kMostBandwidth), FormatBandwidth(flat.link->bandwidth)),
         ""});
  }
  if (flat.link && (flat.link->latency < Time() || flat.link->latency > kMostLatency)) {
    faults.push_back({"link.latency",
                      fmt::format("a link's latency must be between 0 and {}: {}",
                                  FormatTime(kMostLatency), FormatTime(flat.link->latency)),
                      ""});
  }
  return faults;
}

}  // namespace stepcast::topology
