#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

// Nodes and clusters as graphs. Only topology code and what draws or writes it down use this
// header; others ask a Cluster (cluster.h).
namespace stepcast::topology {

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  int node = -1;  // -1: part of the fabric
  int index = 0;  // among its kind, in its node or in the fabric
};
std::string Name(const Device& device);  // "node3/gpu1", "leaf0"

using Vertex = std::size_t;

// One direction of what joins two devices.
struct Link {
  Vertex from = 0;
  Vertex to = 0;
  LinkKind kind = LinkKind::kNvLink;
  Time latency;
  Bandwidth bandwidth;  // of all parallel links together
  int count = 1;        // parallel links
  // Directions of one link are numbered 2i and 2i + 1: `id ^ 1` is the way back.
  int id = 0;
};

struct Graph {
  std::vector<Device> devices;           // [vertex]
  std::vector<std::vector<Link>> links;  // [vertex]: those that leave it
};

// The vertex of a device in a graph that BuildNodeGraph made; the first node of one that
// BuildClusterGraph made has the same.
Vertex VertexOf(const NodeType& node_type, DeviceKind kind, int index);

// The devices of a node and the links between them, without the fabric.
Graph BuildNodeGraph(const NodeType& node_type);

// `nodes` copies of a node and the fabric's switches, every link in both directions. Node n's
// devices have the vertices n * d to (n + 1) * d - 1, with d devices a node.
Graph BuildClusterGraph(const NodeType& node_type, const std::optional<Fabric>& fabric, int nodes);
// Nodes of several types, each with its own links to the fabric's switches: node by node, in order.
// `fabric` may be null, for a node that stands alone.
Graph BuildClusterGraph(std::span<const NodesOfType> nodes, const Fabric* fabric);

// The fabric by arithmetic, for `nodes` nodes of `nics` NICs each.
int LeafCount(const Fabric& fabric, int nodes);
// The leaf that NIC `nic` of `node` hangs on.
int LeafOf(const Fabric& fabric, int node, int nic);

}  // namespace stepcast::topology
