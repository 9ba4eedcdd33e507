#pragma once

#include <string>

#include "src/topology/cluster.h"

// Draws a cluster, for `topology show`.
namespace stepcast::topology {

// Returns a drawing of a cluster as plain text. The drawing shows the devices and connections of a
// node, the fabric, and each kind of link with its latency and bandwidth in one direction. The
// drawing also shows the bandwidth of rings over all ranks of the cluster.
std::string DrawText(const Cluster& cluster);

// Returns a Graphviz graph. The graph has every device of every node, every switch, and one
// undirected edge per linked pair of devices. The output grows with the number of nodes, so use
// small clusters.
std::string DrawDot(const Cluster& cluster);

}  // namespace stepcast::topology
