#include "src/topology/graph.h"

#include "boost/graph/adjacency_list.hpp"
#include "boost/graph/dijkstra_shortest_paths.hpp"
#include "boost/graph/strong_components.hpp"
#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::topology {
namespace {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  void AddNode(const NodeType& node_type, int node) {
    for (int kind = 0; kind < kNodeDeviceKinds; ++kind) {
      for (int i = 0; i < node_type.devices[static_cast<std::size_t>(kind)]; ++i) {
        AddDevice({static_cast<DeviceKind>(kind), node, i});
      }
    }
  }

  void AddDevice(const Device& device) {
    graph_.devices.push_back(device);
    graph_.links.emplace_back();
  }

  // Both directions.
  void AddLink(Vertex from, Vertex to, LinkKind kind, const LinkSpec& link, int count) {
    const Bandwidth all = Bandwidth::BytesPerSecond(link.bandwidth.bytes_per_second() * count);
    graph_.links[from].push_back({from, to, kind, link.latency, all, count, next_id_});
    graph_.links[to].push_back({to, from, kind, link.latency, all, count, next_id_ + 1});
    next_id_ += 2;
  }

 private:
  Graph& graph_;
  int next_id_ = 0;
};

}  // namespace

std::string Name(const Device& device) {
  if (device.node < 0) return fmt::format("{}{}", Name(device.kind), device.index);
  return fmt::format("node{}/{}{}", device.node, Name(device.kind), device.index);
}

Vertex VertexOf(const NodeType& node_type, DeviceKind kind, int index) {
  Vertex vertex = static_cast<Vertex>(index);
  for (int before = 0; before < static_cast<int>(kind); ++before) {
    vertex += static_cast<Vertex>(node_type.devices[static_cast<std::size_t>(before)]);
  }
  return vertex;
}

Graph BuildNodeGraph(const NodeType& node_type) {
  return BuildClusterGraph(node_type, std::nullopt, 1);
}

Graph BuildClusterGraph(const NodeType& node_type, const std::optional<Fabric>& fabric, int nodes) {
  const NodesOfType all{&node_type, fabric ? fabric->link : LinkSpec(), nodes};
  return BuildClusterGraph({&all, 1}, fabric ? &*fabric : nullptr);
}

Graph BuildClusterGraph(std::span<const NodesOfType> nodes, const Fabric* fabric) {
  Graph graph;
  Builder builder(graph);
  std::vector<const NodesOfType*> of_node;
  std::vector<Vertex> first_of_node;
  for (const NodesOfType& alike : nodes) {
    for (int node = 0; node < alike.nodes; ++node) {
      first_of_node.push_back(graph.devices.size());
      builder.AddNode(*alike.type, static_cast<int>(of_node.size()));
      of_node.push_back(&alike);
    }
  }
  for (std::size_t node = 0; node < of_node.size(); ++node) {
    const NodeType& type = *of_node[node]->type;
    const Vertex first = first_of_node[node];
    for (const LinkRule& rule : type.links) {
      for (const auto& [from, to] : PairsOf(rule)) {
        builder.AddLink(first + VertexOf(type, rule.from.kind, from),
                        first + VertexOf(type, rule.to.kind, to), rule.kind, rule.link, rule.count);
      }
    }
  }
  if (fabric == nullptr) return graph;

  const Vertex first_leaf = graph.devices.size();
  const int leaves = LeafCount(*fabric, static_cast<int>(of_node.size()));
  const int spines = fabric->kind == FabricKind::kOneSwitch ? 0 : fabric->spines;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    builder.AddDevice({DeviceKind::kLeafSwitch, -1, leaf});
  }
  for (int spine = 0; spine < spines; ++spine) {
    builder.AddDevice({DeviceKind::kSpineSwitch, -1, spine});
  }
  for (std::size_t node = 0; node < of_node.size(); ++node) {
    const NodeType& type = *of_node[node]->type;
    for (int nic = 0; nic < type.Count(DeviceKind::kNic); ++nic) {
      const auto leaf = static_cast<Vertex>(LeafOf(*fabric, static_cast<int>(node), nic));
      builder.AddLink(first_of_node[node] + VertexOf(type, DeviceKind::kNic, nic),
                      first_leaf + leaf, LinkKind::kNetwork, of_node[node]->link, 1);
    }
  }
  const Vertex first_spine = first_leaf + static_cast<Vertex>(leaves);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int spine = 0; spine < spines; ++spine) {
      builder.AddLink(first_leaf + static_cast<Vertex>(leaf),
                      first_spine + static_cast<Vertex>(spine), LinkKind::kNetwork, fabric->uplink,
                      1);
    }
  }
  return graph;
}

int LeafCount(const Fabric& fabric, int nodes) {
  if (fabric.kind == FabricKind::kOneSwitch) return 1;
  STEPCAST_CHECK(fabric.nodes_per_unit > 0, "a leaf switch must have at least one node below it");
  const int units = (nodes + fabric.nodes_per_unit - 1) / fabric.nodes_per_unit;
  return fabric.kind == FabricKind::kFatTree ? units : units * fabric.rails;
}

int LeafOf(const Fabric& fabric, int node, int nic) {
  if (fabric.kind == FabricKind::kOneSwitch) return 0;
  const int unit = node / fabric.nodes_per_unit;
  return fabric.kind == FabricKind::kFatTree ? unit : unit * fabric.rails + nic % fabric.rails;
}

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
