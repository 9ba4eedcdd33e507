#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "src/base/time.h"
#include "src/topology/graph.h"

// What Boost.Graph finds out about a graph. It takes seconds to include, hence here only
// graph_search.cc does.
namespace stepcast::topology {

// How far two devices are apart: by latency, then by links crossed.
struct Distance {
  Time latency;
  int hops = 0;
  friend constexpr auto operator<=>(const Distance&, const Distance&) = default;
};
// Between devices that nothing joins.
inline constexpr Distance kUnreachable = {Time::Max(), std::numeric_limits<int>::max()};

// The directions of links that count.
using LinkFilter = std::function<bool(const Link&)>;

// By Dijkstra's algorithm: from one device to each, [vertex].
std::vector<Distance> DistancesFrom(const Graph& graph, Vertex source, const LinkFilter& filter);

// The parts that are connected inside and not with each other. Requires that both directions of a
// link count, or neither.
struct Parts {
  std::vector<int> of;  // [vertex]
  int count = 0;
};
Parts PartsOf(const Graph& graph, const LinkFilter& filter);

}  // namespace stepcast::topology
