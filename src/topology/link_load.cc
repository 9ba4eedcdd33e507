#include "src/topology/link_load.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "boost/graph/adjacency_list.hpp"
#include "src/topology/graph.h"
#include "src/topology/rings.h"
#include "src/topology/routes.h"

namespace stepcast::topology {
namespace {

// The fraction of the buffer that one hop of the ring carries.
std::optional<double> RingPart(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  const std::string_view name = Name(kind);
  if (name == "all_reduce") return 2 * others;
  if (name == "reduce_scatter" || name == "all_gather") return others;
  if (name == "broadcast" || name == "reduce") return 1;
  return std::nullopt;
}

std::vector<LinkLoad> FlatLoads(const FlatCluster& flat, double bytes) {
  LinkLoad up{.from = Name(Device{DeviceKind::kGpu, 0, 0}),
              .to = Name(Device{DeviceKind::kLeafSwitch, -1, 0}),
              .from_kind = DeviceKind::kGpu,
              .to_kind = DeviceKind::kLeafSwitch,
              .kind = LinkKind::kNetwork,
              .count = 1,
              .bandwidth = flat.link->bandwidth,
              .bytes = bytes};
  LinkLoad down = up;
  std::swap(down.from, down.to);
  std::swap(down.from_kind, down.to_kind);
  return {up, down};
}

class NodeLoads {
 public:
  NodeLoads(const Cluster& cluster, double bytes)
      : node_type_(*cluster.node_type()),
        fabric_(cluster.nodes() > 1 ? cluster.fabric() : nullptr),
        nodes_(cluster.nodes()),
        bytes_(bytes),
        routes_(node_type_) {}

  std::vector<LinkLoad> Run() {
    std::vector<int> gpus(static_cast<std::size_t>(node_type_.Count(DeviceKind::kGpu)));
    std::iota(gpus.begin(), gpus.end(), 0);
    const NodeRings rings = BuildNodeRings(routes_, gpus);
    if (fabric_ == nullptr) {
      AddNode(rings.loads, std::max<std::size_t>(rings.cycles.size(), 1));
      return std::move(loads_);
    }
    const std::size_t channels = RailsOf(routes_, gpus).size();
    const NodeTraffic traffic =
        BuildNodeTraffic(routes_, gpus, rings, fabric_->link.bandwidth, static_cast<int>(channels));
    AddNode(traffic.loads, channels);
    AddFabric(traffic.rails);
    return std::move(loads_);
  }

 private:
  void AddNode(const std::vector<double>& crossing, std::size_t channels) {
    const Graph graph = BuildNodeGraph(node_type_);
    std::vector<LinkLoad> by_id(crossing.size());
    for (const std::vector<Link>& leaving : graph.links) {
      for (const Link& link : leaving) {
        const auto id = static_cast<std::size_t>(link.id);
        if (id >= by_id.size()) continue;
        by_id[id] = Load(graph.devices[link.from], graph.devices[link.to], link.kind, link.count,
                         link.bandwidth, bytes_ * crossing[id] / static_cast<double>(channels));
      }
    }
    for (LinkLoad& load : by_id) loads_.push_back(std::move(load));
  }

  static LinkLoad Load(const Device& from, const Device& to, LinkKind kind, int count,
                       Bandwidth bandwidth, double bytes) {
    return {.from = Name(from),
            .to = Name(to),
            .from_kind = from.kind,
            .to_kind = to.kind,
            .kind = kind,
            .count = count,
            .bandwidth = bandwidth,
            .bytes = bytes};
  }

  void AddFabric(const std::vector<int>& rails) {
    const double channel = bytes_ / static_cast<double>(rails.size());
    std::vector<double> ports(static_cast<std::size_t>(node_type_.Count(DeviceKind::kNic)));
    for (const int nic : rails) ports[static_cast<std::size_t>(nic)] += channel;
    for (std::size_t nic = 0; nic < ports.size(); ++nic) {
      const int index = static_cast<int>(nic);
      const Device port{DeviceKind::kNic, 0, index};
      const Device leaf{DeviceKind::kLeafSwitch, -1, LeafOf(*fabric_, 0, index)};
      for (const bool up : {true, false}) {
        loads_.push_back(Load(up ? port : leaf, up ? leaf : port, LinkKind::kNetwork, 1,
                              fabric_->link.bandwidth, ports[nic]));
      }
    }
    if (fabric_->kind == FabricKind::kOneSwitch) return;
    // Channels that go up from each leaf, and come down to it, towards the next node. The last
    // node's next one is the first.
    const int leaves = LeafCount(*fabric_, nodes_);
    std::vector<std::pair<double, double>> climbing(static_cast<std::size_t>(leaves));
    for (int node = 0; node < nodes_; ++node) {
      for (const int nic : rails) {
        const int from = LeafOf(*fabric_, node, nic);
        const int to = LeafOf(*fabric_, (node + 1) % nodes_, nic);
        if (from == to) continue;
        climbing[static_cast<std::size_t>(from)].first += channel / fabric_->spines;
        climbing[static_cast<std::size_t>(to)].second += channel / fabric_->spines;
      }
    }
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int spine = 0; spine < fabric_->spines; ++spine) {
        const Device below{DeviceKind::kLeafSwitch, -1, leaf};
        const Device above{DeviceKind::kSpineSwitch, -1, spine};
        const auto& [up, down] = climbing[static_cast<std::size_t>(leaf)];
        loads_.push_back(Load(below, above, LinkKind::kNetwork, 1, fabric_->uplink.bandwidth, up));
        loads_.push_back(
            Load(above, below, LinkKind::kNetwork, 1, fabric_->uplink.bandwidth, down));
      }
    }
  }

  const NodeType& node_type_;
  const Fabric* fabric_;  // null: one node
  const int nodes_;
  const double bytes_;  // that a hop of the rings carries
  const NodeRoutes routes_;
  std::vector<LinkLoad> loads_;
};

}  // namespace

std::optional<std::vector<LinkLoad>> RingLoads(const Cluster& cluster, CollectiveKind kind,
                                               Bytes bytes) {
  const std::optional<double> part = RingPart(kind, cluster.devices());
  if (!part || cluster.devices() < 2) return std::nullopt;
  const double carried = *part * static_cast<double>(bytes.count());
  if (const FlatCluster* flat = cluster.flat_cluster()) {
    if (!flat->link) return std::nullopt;
    return FlatLoads(*flat, carried);
  }
  return NodeLoads(cluster, carried).Run();
}

}  // namespace stepcast::topology
