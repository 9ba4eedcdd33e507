#include "src/topology/routes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "src/base/check.h"

namespace stepcast::topology {
namespace {

// Selects the links that a route from `source` may take.
LinkFilter UsableFrom(const Graph& graph, Vertex source, bool nvlink_only) {
  return [&graph, source, nvlink_only](const Link& link) {
    if (nvlink_only && link.kind != LinkKind::kNvLink) return false;
    return link.from == source || Forwards(graph.devices[link.from].kind);
  };
}

}  // namespace

NodeRoutes::NodeRoutes(const NodeType& node_type)
    : gpus_(node_type.Count(DeviceKind::kGpu)),
      nics_(node_type.Count(DeviceKind::kNic)),
      first_nic_(VertexOf(node_type, DeviceKind::kNic, 0)),
      graph_(BuildNodeGraph(node_type)) {
  std::size_t links = 0;
  for (const std::vector<Link>& leaving : graph_.links) links += leaving.size();
  links_.resize(links);
  for (const std::vector<Link>& leaving : graph_.links) {
    for (const Link& link : leaving) links_[static_cast<std::size_t>(link.id)] = link;
  }
  distances_.reserve(static_cast<std::size_t>(gpus_));
  for (int gpu = 0; gpu < gpus_; ++gpu) {
    const Vertex from = static_cast<Vertex>(gpu);
    distances_.push_back(DistancesFrom(graph_, from, UsableFrom(graph_, from, false)));
    nvlink_distances_.push_back(DistancesFrom(graph_, from, UsableFrom(graph_, from, true)));
  }
  DealNics();
}

bool NodeRoutes::Connected(int from_gpu, int to_gpu) const {
  return DistanceTo(from_gpu, static_cast<Vertex>(to_gpu)) != kUnreachable;
}

bool NodeRoutes::ReachesNic(int gpu, int nic) const {
  return DistanceTo(gpu, first_nic_ + static_cast<Vertex>(nic)) != kUnreachable;
}

Distance NodeRoutes::DistanceToNic(int gpu, int nic) const {
  return DistanceTo(gpu, first_nic_ + static_cast<Vertex>(nic));
}

int NodeRoutes::DirectNvLinks(int from_gpu, int to_gpu) const {
  int links = 0;
  for (const Link& link : graph_.links[static_cast<Vertex>(from_gpu)]) {
    if (link.to != static_cast<Vertex>(to_gpu)) continue;
    if (link.kind == LinkKind::kNvLink) links += link.count;
  }
  return links;
}

bool NodeRoutes::JoinedByNvLink(int from_gpu, int to_gpu) const {
  return nvlink_distances_[static_cast<std::size_t>(from_gpu)][static_cast<Vertex>(to_gpu)] !=
         kUnreachable;
}

Route NodeRoutes::BetweenGpus(int from, int to) const {
  const bool nvlink = JoinedByNvLink(from, to);
  return RouteTo(from, static_cast<Vertex>(to),
                 (nvlink ? nvlink_distances_ : distances_)[static_cast<std::size_t>(from)], nvlink);
}

Route NodeRoutes::ToNic(int gpu, int nic) const {
  return RouteTo(gpu, first_nic_ + static_cast<Vertex>(nic),
                 distances_[static_cast<std::size_t>(gpu)], false);
}

Route NodeRoutes::FromNic(int nic, int gpu) const {
  Route route = ToNic(gpu, nic);
  for (Share& share : route.shares) share.link ^= 1;
  return route;
}

// Walks the shortest-path graph back from the target. At each device, the arriving fraction is
// divided among the links of shortest routes, in proportion to their bandwidth.
Route NodeRoutes::RouteTo(int gpu, Vertex target, const Distances& distance,
                          bool nvlink_only) const {
  STEPCAST_CHECK(distance[target] != kUnreachable, "the two devices must be connected by a route");
  Route route;
  route.distance = distance[target];
  // Devices still to be traced, farthest first, so that a device's share is complete when its turn
  // comes. A link of zero latency still adds a hop, so distances strictly decrease.
  std::map<std::pair<Distance, Vertex>, double, std::greater<>> open;
  open.emplace(std::pair(distance[target], target), 1.0);
  while (!open.empty()) {
    const auto [key, share] = *open.begin();
    open.erase(open.begin());
    const Vertex vertex = key.second;
    if (vertex == static_cast<Vertex>(gpu)) continue;
    // Every link has a reverse link, so the links that leave a device are those that reach it.
    const auto came_over = [&](const Link& back) {
      const Vertex before = back.to;
      if (before != static_cast<Vertex>(gpu) && !Forwards(graph_.devices[before].kind)) {
        return false;
      }
      if (nvlink_only && back.kind != LinkKind::kNvLink) return false;
      if (distance[before] == kUnreachable) return false;
      return Distance{distance[before].latency + back.latency, distance[before].hops + 1} ==
             distance[vertex];
    };
    double total = 0;
    for (const Link& back : graph_.links[vertex]) {
      if (came_over(back)) total += static_cast<double>(back.bandwidth.bytes_per_second());
    }
    STEPCAST_CHECK(total > 0,
                   "a reachable device must have a link to the previous device of its "
                   "route");
    for (const Link& back : graph_.links[vertex]) {
      if (!came_over(back)) continue;
      const double part = share * static_cast<double>(back.bandwidth.bytes_per_second()) / total;
      route.shares.push_back({back.id ^ 1, part});
      route.nvlink = route.nvlink && back.kind == LinkKind::kNvLink;
      open[std::pair(distance[back.to], back.to)] += part;
    }
  }
  return route;
}

void NodeRoutes::DealNics() {
  // GPUs by their set of nearest NICs.
  std::map<std::vector<int>, std::vector<int>> sharers;
  for (int gpu = 0; gpu < gpus_; ++gpu) {
    Distance nearest = kUnreachable;
    for (int nic = 0; nic < nics_; ++nic) nearest = std::min(nearest, DistanceToNic(gpu, nic));
    std::vector<int> nics;
    for (int nic = 0; nic < nics_ && nearest != kUnreachable; ++nic) {
      if (DistanceToNic(gpu, nic) == nearest) nics.push_back(nic);
    }
    sharers[nics].push_back(gpu);
  }
  nics_of_.resize(static_cast<std::size_t>(gpus_));
  for (const auto& [nics, gpus] : sharers) {
    // Assigns NICs and GPUs in turn, so that every GPU has a NIC and every NIC has a GPU.
    const std::size_t deals = nics.empty() ? 0 : std::max(nics.size(), gpus.size());
    for (std::size_t i = 0; i < deals; ++i) {
      nics_of_[static_cast<std::size_t>(gpus[i % gpus.size()])].push_back(nics[i % nics.size()]);
    }
  }
}

}  // namespace stepcast::topology
