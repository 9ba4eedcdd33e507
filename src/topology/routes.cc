#include "src/topology/routes.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "boost/graph/dijkstra_shortest_paths.hpp"
#include "boost/graph/filtered_graph.hpp"
#include "boost/property_map/function_property_map.hpp"
#include "src/base/check.h"

namespace stepcast::topology {
namespace {

constexpr Distance kUnreachable = {Time::Max(), std::numeric_limits<int>::max()};

// The links that a route from `source` may take.
struct Usable {
  const Graph* graph = nullptr;
  Vertex source = 0;
  bool nvlink_only = false;
  bool operator()(const Edge& edge) const {
    if (nvlink_only && (*graph)[edge].kind != LinkKind::kNvLink) return false;
    const Vertex from = boost::source(edge, *graph);
    return from == source || Forwards((*graph)[from].kind);
  }
};

std::vector<Distance> DistancesFrom(const Graph& graph, Vertex source, bool nvlink_only) {
  std::vector<Distance> distances(boost::num_vertices(graph), kUnreachable);
  const boost::filtered_graph<Graph, Usable> usable(graph, Usable{&graph, source, nvlink_only});
  const auto weight = boost::make_function_property_map<Edge, Distance>([&graph](const Edge& edge) {
    return Distance{graph[edge].latency, 1};
  });
  boost::dijkstra_shortest_paths(usable, source,
                                 boost::weight_map(weight)
                                     .distance_map(boost::make_iterator_property_map(
                                         distances.begin(), boost::get(boost::vertex_index, graph)))
                                     .distance_compare(std::less<Distance>())
                                     .distance_combine([](const Distance& a, const Distance& b) {
                                       return Distance{a.latency + b.latency, a.hops + b.hops};
                                     })
                                     .distance_inf(kUnreachable)
                                     .distance_zero(Distance{}));
  return distances;
}

}  // namespace

NodeRoutes::NodeRoutes(const NodeType& node_type)
    : gpus_(node_type.Count(DeviceKind::kGpu)),
      nics_(node_type.Count(DeviceKind::kNic)),
      first_nic_(VertexOf(node_type, DeviceKind::kNic, 0)),
      graph_(BuildNodeGraph(node_type)) {
  links_.resize(boost::num_edges(graph_));
  for (const Edge& edge : boost::make_iterator_range(boost::edges(graph_))) {
    links_[static_cast<std::size_t>(graph_[edge].id)] = graph_[edge];
  }
  distances_.reserve(static_cast<std::size_t>(gpus_));
  for (int gpu = 0; gpu < gpus_; ++gpu) {
    distances_.push_back(DistancesFrom(graph_, static_cast<Vertex>(gpu), false));
    nvlink_distances_.push_back(DistancesFrom(graph_, static_cast<Vertex>(gpu), true));
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
  for (const Edge& edge :
       boost::make_iterator_range(boost::out_edges(static_cast<Vertex>(from_gpu), graph_))) {
    if (boost::target(edge, graph_) != static_cast<Vertex>(to_gpu)) continue;
    if (graph_[edge].kind == LinkKind::kNvLink) links += graph_[edge].count;
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

// Walks the shortest-path graph back from the target. At each device the arriving share divides
// among the links on which it can have come, by their bandwidth.
Route NodeRoutes::RouteTo(int gpu, Vertex target, const Distances& distance,
                          bool nvlink_only) const {
  STEPCAST_CHECK(distance[target] != kUnreachable, "there is a route between the devices");
  Route route;
  route.distance = distance[target];
  // What is still to be traced: devices, farthest first, so that a device's share is complete when
  // its turn comes. A link of zero latency still adds a hop, so distances strictly fall.
  std::map<std::pair<Distance, Vertex>, double, std::greater<>> open;
  open.emplace(std::pair(distance[target], target), 1.0);
  while (!open.empty()) {
    const auto [key, share] = *open.begin();
    open.erase(open.begin());
    const Vertex vertex = key.second;
    if (vertex == static_cast<Vertex>(gpu)) continue;
    // Every link has its way back, so the links that leave a device are the ones that reach it.
    const auto came_over = [&](const Edge& back) {
      const Vertex before = boost::target(back, graph_);
      if (before != static_cast<Vertex>(gpu) && !Forwards(graph_[before].kind)) return false;
      if (nvlink_only && graph_[back].kind != LinkKind::kNvLink) return false;
      if (distance[before] == kUnreachable) return false;
      return Distance{distance[before].latency + graph_[back].latency, distance[before].hops + 1} ==
             distance[vertex];
    };
    double total = 0;
    for (const Edge& back : boost::make_iterator_range(boost::out_edges(vertex, graph_))) {
      if (came_over(back)) {
        total += static_cast<double>(graph_[back].bandwidth.bytes_per_second());
      }
    }
    STEPCAST_CHECK(total > 0, "a device at a known distance was reached over a link");
    for (const Edge& back : boost::make_iterator_range(boost::out_edges(vertex, graph_))) {
      if (!came_over(back)) continue;
      const Link& link = graph_[back];
      const double part = share * static_cast<double>(link.bandwidth.bytes_per_second()) / total;
      route.shares.push_back({link.id ^ 1, part});
      route.nvlink = route.nvlink && link.kind == LinkKind::kNvLink;
      const Vertex before = boost::target(back, graph_);
      open[std::pair(distance[before], before)] += part;
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
    // Deal as long as either side lasts, so that every GPU has a NIC and every NIC a GPU.
    const std::size_t deals = nics.empty() ? 0 : std::max(nics.size(), gpus.size());
    for (std::size_t i = 0; i < deals; ++i) {
      nics_of_[static_cast<std::size_t>(gpus[i % gpus.size()])].push_back(nics[i % nics.size()]);
    }
  }
}

}  // namespace stepcast::topology
