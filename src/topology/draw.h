#pragma once

#include <string>

#include "src/topology/cluster.h"

// Draws a cluster, for `topology show`.
namespace stepcast::topology {

// Returns plain text for people: the devices of a node and their connections, the fabric, each kind
// of link with latency and bandwidth (one direction), and the bandwidth of rings over the whole
// cluster.
std::string DrawText(const Cluster& cluster);

// Returns a Graphviz graph: every device of every node, every switch, and one undirected edge per
// linked pair of devices. The output grows with the cluster, so draw few nodes.
std::string DrawDot(const Cluster& cluster);

}  // namespace stepcast::topology
