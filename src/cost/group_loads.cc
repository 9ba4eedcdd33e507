#include "src/cost/group_loads.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "src/cost/link_loads.h"
#include "src/network/cluster_network.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {

namespace {

// These few nodes stand for all, so what one hash would do to them says nothing: collisions are in
// the path (Cluster::PathOf), as they are to be expected.
std::optional<topology::Fabric> FabricOf(const topology::Cluster& cluster) {
  if (cluster.fabric() == nullptr) return std::nullopt;
  topology::Fabric fabric = *cluster.fabric();
  fabric.routing = {};
  return fabric;
}

}  // namespace

struct GroupLoads::Nodes {
  Nodes(const topology::Cluster& of, int nodes)
      : cluster(*of.node_type(), FabricOf(of), nodes, of.gpus_per_node()) {}

  bool IsOf(const topology::Cluster& other, int nodes) const {
    return cluster.nodes() == nodes && cluster.gpus_per_node() == other.gpus_per_node() &&
           *cluster.node_type() == *other.node_type() && FabricOf(cluster) == FabricOf(other);
  }

  const topology::Cluster cluster;
  std::optional<network::ClusterNetwork> network;
  std::optional<LinkLoads> loads;
  std::vector<const std::pair<const std::string, std::uint32_t>*> links;  // [link]: in links_
  bool nvlink = false;                                                    // some of them
};

GroupLoads::GroupLoads() = default;
GroupLoads::~GroupLoads() = default;

tl::expected<GroupLoads::Nodes*, network::Fault> GroupLoads::NodesOf(
    const topology::Cluster& cluster, int nodes) {
  const auto known = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& one) { return one->IsOf(cluster, nodes); });
  if (known != nodes_.end()) return known->get();
  auto added = std::make_unique<Nodes>(cluster, nodes);
  auto network = network::NetworkOf(added->cluster);
  if (!network) return tl::unexpected(network.error().front());
  added->network.emplace(*std::move(network));
  added->loads.emplace(*added->network);
  const network::Network& links = added->network->network;
  for (int id = 0; id < links.links(); ++id) {
    const auto next = static_cast<std::uint32_t>(links_.size());
    added->links.push_back(&*links_.try_emplace(links.LinkName(id), next).first);
    added->nvlink = added->nvlink || links.link(id).nvlink;
  }
  return nodes_.emplace_back(std::move(added)).get();
}

tl::expected<const std::vector<GroupLoads::Load>*, network::Fault> GroupLoads::Of(
    const topology::Cluster& cluster, int nodes, const Groups& groups, std::string_view algorithm,
    CollectiveKind kind) {
  const auto on = NodesOf(cluster, nodes);
  if (!on) return tl::unexpected(on.error());
  const Key key(*on, groups, algorithm, kind);
  if (const auto found = known_.find(key); found != known_.end()) return &found->second;
  const network::Network& links = (*on)->network->network;
  std::vector<double> busy(static_cast<std::size_t>(links.links()));
  for (const std::vector<int>& group : groups) {
    const auto load = (*on)->loads->Of(group, algorithm, kind);
    if (!load) return tl::unexpected(load.error());
    for (const auto& [link, seconds] : load->busy) busy[link] += seconds;
  }
  std::vector<Load> loads;
  for (int id = 0; id < links.links(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    if (busy[at] == 0) continue;
    const auto& [name, number] = *(*on)->links[at];
    loads.push_back({.link = number,
                     .name = name,
                     .scale_up = (*on)->nvlink ? links.link(id).nvlink : links.IsInsideNode(id),
                     .busy = busy[at]});
  }
  if (known_.size() == kMostKnown) known_.clear();
  return &known_.emplace(key, std::move(loads)).first->second;
}

}  // namespace stepcast::cost
