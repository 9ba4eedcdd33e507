#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "src/base/time.h"
#include "src/topology/graph.h"

// Graph algorithms of Boost.Graph. Boost.Graph takes seconds to compile, so only graph_search.cc
// includes it.
namespace stepcast::topology {

// Distance between two devices: by latency, then by number of links.
struct Distance {
  Time latency;
  int hops = 0;
  friend constexpr auto operator<=>(const Distance&, const Distance&) = default;
};
// Distance between devices without a path between them.
inline constexpr Distance kUnreachable = {Time::Max(), std::numeric_limits<int>::max()};

// Selects the link directions that a search may use.
using LinkFilter = std::function<bool(const Link&)>;

// Distances from `source` to every device, [vertex] (Dijkstra's algorithm).
std::vector<Distance> DistancesFrom(const Graph& graph, Vertex source, const LinkFilter& filter);

// The connected components of a graph. `filter` must accept both directions of a link or neither.
struct Parts {
  std::vector<int> of;  // [vertex]: its component's number
  int count = 0;
};
Parts PartsOf(const Graph& graph, const LinkFilter& filter);

}  // namespace stepcast::topology
