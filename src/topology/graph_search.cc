#include "src/topology/graph_search.h"

#include <functional>

#include "boost/graph/adjacency_list.hpp"
#include "boost/graph/dijkstra_shortest_paths.hpp"
#include "boost/graph/strong_components.hpp"

namespace stepcast::topology {
namespace {

struct Length {
  Distance distance;
};

using Searched =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Length>;

Searched WithLinks(const Graph& graph, const LinkFilter& filter) {
  Searched searched(graph.devices.size());
  for (const std::vector<Link>& leaving : graph.links) {
    for (const Link& link : leaving) {
      if (filter(link)) boost::add_edge(link.from, link.to, Length{{link.latency, 1}}, searched);
    }
  }
  return searched;
}

}  // namespace

std::vector<Distance> DistancesFrom(const Graph& graph, Vertex source, const LinkFilter& filter) {
  const Searched searched = WithLinks(graph, filter);
  std::vector<Distance> distances(graph.devices.size());
  boost::dijkstra_shortest_paths(
      searched, source,
      boost::weight_map(boost::get(&Length::distance, searched))
          .distance_map(boost::make_iterator_property_map(
              distances.begin(), boost::get(boost::vertex_index, searched)))
          .distance_compare(std::less<Distance>())
          .distance_combine([](const Distance& a, const Distance& b) {
            return Distance{a.latency + b.latency, a.hops + b.hops};
          })
          .distance_inf(kUnreachable)
          .distance_zero(Distance{}));
  return distances;
}

Parts PartsOf(const Graph& graph, const LinkFilter& filter) {
  const Searched searched = WithLinks(graph, filter);
  Parts parts;
  parts.of.resize(graph.devices.size());
  parts.count = boost::strong_components(
      searched, boost::make_iterator_property_map(parts.of.begin(),
                                                  boost::get(boost::vertex_index, searched)));
  return parts;
}

}  // namespace stepcast::topology
