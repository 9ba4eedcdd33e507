#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

// Nodes and clusters as graphs. Only topology code and code that draws or writes graphs includes
// this header; other code uses Cluster (cluster.h).
namespace stepcast::topology {

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  int node = -1;  // -1: part of the fabric
  int index = 0;  // index among the devices of its kind in the node or the fabric
};
std::string Name(const Device& device);  // "node3/gpu1", "leaf0"

using Vertex = std::size_t;

// One direction of the connection between two devices.
struct Link {
  Vertex from = 0;
  Vertex to = 0;
  LinkKind kind = LinkKind::kNvLink;
  Time latency;
  Bandwidth bandwidth;  // total of all parallel links
  int count = 1;        // number of parallel links
  // The number of this link direction. The two directions of a link have the numbers 2i and 2i + 1,
  // so `id ^ 1` is the reverse direction.
  int id = 0;
};

struct Graph {
  std::vector<Device> devices;           // [vertex]
  std::vector<std::vector<Link>> links;  // [vertex]: the links that leave the vertex
};

// Returns the vertex of a node's device in a graph from BuildNodeGraph. In a graph from
// BuildClusterGraph, the first node has the same vertex numbers.
Vertex VertexOf(const NodeType& node_type, DeviceKind kind, int index);

// Builds the graph of a node: its devices and the links between them, without the fabric.
Graph BuildNodeGraph(const NodeType& node_type);

// Builds the graph of a cluster: `nodes` copies of a node and the fabric's switches, with every
// link in both directions. With d devices per node, node n's devices have the vertices n * d to (n
// + 1) * d - 1.
Graph BuildClusterGraph(const NodeType& node_type, const std::optional<Fabric>& fabric, int nodes);
// Builds the graph of nodes of several types, in order. NodesOfType::link describes the links of
// each node to the fabric's switches. `fabric` may be null for a single node.
Graph BuildClusterGraph(std::span<const NodesOfType> nodes, const Fabric* fabric);

// Returns the number of leaf switches for `nodes` nodes, computed without building the graph.
int LeafCount(const Fabric& fabric, int nodes);
// Returns the leaf switch to which NIC `nic` of `node` is connected.
int LeafOf(const Fabric& fabric, int node, int nic);

// Graph algorithms of Boost.Graph. Only graph.cc includes Boost.Graph, because it takes seconds to
// compile.

// The distance between two devices. Distances are compared first by latency, then by number of
// links.
struct Distance {
  Time latency;
  int hops = 0;
  friend constexpr auto operator<=>(const Distance&, const Distance&) = default;
};
// The distance between two devices that no path connects.
inline constexpr Distance kUnreachable = {Time::Max(), std::numeric_limits<int>::max()};

// Selects the link directions that a search may use.
using LinkFilter = std::function<bool(const Link&)>;

// Returns the distances from `source` to every device, indexed by vertex (Dijkstra's algorithm).
std::vector<Distance> DistancesFrom(const Graph& graph, Vertex source, const LinkFilter& filter);

// The connected components of a graph. `filter` must accept both directions of a link or neither.
struct Parts {
  std::vector<int> of;  // [vertex]: index of its component
  int count = 0;
};
Parts PartsOf(const Graph& graph, const LinkFilter& filter);

}  // namespace stepcast::topology
