#include "src/network/cluster_network.h"

#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "src/topology/device.h"
#include "src/topology/graph.h"

namespace stepcast::network {
namespace {

using topology::DeviceKind;

std::vector<Fault> Apply(std::span<const LinkChange> changes, Network::Description& description) {
  std::vector<Fault> faults;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const LinkChange& change = changes[i];
    if (description.Change(change.from, change.to, change.bandwidth)) continue;
    faults.push_back(
        {fmt::format("there is no link between '{}' and '{}'", change.from, change.to),
         "write the devices at both ends of a link, for example 'node0/nic0' and 'leaf0'",
         static_cast<int>(i)});
  }
  return faults;
}

WayChoice ChoiceOf(const topology::Fabric& fabric) {
  WayChoice choice{.connections = fabric.connections,
                   .seed = static_cast<std::uint64_t>(fabric.routing.seed)};
  switch (fabric.routing.choice) {
    case topology::RouteChoice::kAdaptive:
      choice.by = WayChoice::By::kAll;
      break;
    case topology::RouteChoice::kStatic:
      choice.by = WayChoice::By::kDestination;
      break;
    case topology::RouteChoice::kEcmp:
      choice.by = WayChoice::By::kHash;
      break;
  }
  return choice;
}

tl::expected<ClusterNetwork, std::vector<Fault>> FlatNetwork(const topology::FlatCluster& flat,
                                                             std::span<const LinkChange> changes) {
  if (!flat.link) {
    return tl::unexpected(
        std::vector<Fault>{{"the flat cluster has no link",
                            "add a link to the flat cluster: 'link: {latency: 5 us, "
                            "...}'"}});
  }
  Network::Description description;
  const int hub = description.AddDevice("switch", /*forwards=*/true);
  for (int rank = 0; rank < flat.devices; ++rank) {
    const int device = description.AddDevice(fmt::format("device{}", rank), false, rank);
    description.AddLink({.from = device,
                         .to = hub,
                         .latency = flat.link->latency,
                         .bandwidth = flat.link->bandwidth});
    description.AddLink({.from = hub, .to = device, .bandwidth = flat.link->bandwidth});
    description.AddPlace({device});
  }
  if (auto faults = Apply(changes, description); !faults.empty()) {
    return tl::unexpected(std::move(faults));
  }
  return Network::Make(std::move(description)).map([](Network network) {
    return ClusterNetwork{.network = std::move(network)};
  });
}

}  // namespace

tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(const topology::Cluster& cluster,
                                                           std::span<const LinkChange> changes) {
  if (cluster.flat()) return FlatNetwork(*cluster.flat_cluster(), changes);
  const topology::Fabric* fabric = cluster.fabric();
  const topology::NodesOfType all{cluster.node_type(),
                                  fabric == nullptr ? topology::LinkSpec() : fabric->link,
                                  cluster.nodes(), cluster.gpus_per_node()};
  return NetworkOf({all}, fabric, changes);
}

tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(std::vector<topology::NodesOfType> nodes,
                                                           const topology::Fabric* fabric,
                                                           std::span<const LinkChange> changes) {
  const topology::Graph graph = topology::BuildClusterGraph(nodes, fabric);
  std::size_t count = 0;
  for (const topology::NodesOfType& alike : nodes) count += static_cast<std::size_t>(alike.nodes);

  Network::Description description;
  std::vector<std::vector<int>> node_switches(count);
  std::vector<int> leaves;
  std::vector<int> spines;
  std::vector<int> gpus;  // that ranks are on
  const int ranks_per_node = nodes.front().gpus_with_ranks();
  for (const topology::Device& device : graph.devices) {
    const int id =
        description.AddDevice(topology::Name(device), device.kind != DeviceKind::kGpu, device.node);
    if (device.kind == DeviceKind::kGpu && device.index < ranks_per_node) gpus.push_back(id);
    if (device.kind == DeviceKind::kNvSwitch) {
      node_switches[static_cast<std::size_t>(device.node)].push_back(id);
    }
    if (device.kind == DeviceKind::kLeafSwitch) leaves.push_back(id);
    if (device.kind == DeviceKind::kSpineSwitch) spines.push_back(id);
  }
  for (const std::vector<topology::Link>& leaving : graph.links) {
    for (const topology::Link& link : leaving) {
      description.AddLink({.from = static_cast<int>(link.from),
                           .to = static_cast<int>(link.to),
                           .latency = link.latency,
                           .bandwidth = link.bandwidth,
                           .nvlink = link.kind == topology::LinkKind::kNvLink});
    }
  }
  for (const int gpu : gpus) description.AddPlace({gpu});
  if (fabric) description.Choose(ChoiceOf(*fabric));

  std::vector<int> switch_places;
  for (std::vector<int>& switches : node_switches) {
    switch_places.push_back(switches.empty() ? -1 : description.AddPlace(std::move(switches)));
  }
  int fabric_switch = -1;
  if (!spines.empty() || !leaves.empty()) {
    fabric_switch = description.AddPlace(spines.empty() ? leaves : spines);
  }
  if (auto faults = Apply(changes, description); !faults.empty()) {
    return tl::unexpected(std::move(faults));
  }
  auto network = Network::Make(std::move(description));
  if (!network) return tl::unexpected(std::move(network.error()));
  return ClusterNetwork{*std::move(network), std::move(switch_places), fabric_switch,
                        std::move(nodes)};
}

}  // namespace stepcast::network
