#pragma once

#include <string>

#include "src/topology/cluster.h"

// Pictures of a cluster, for `topology show`.
namespace stepcast::topology {

// For people: what a node consists of and how its devices hang together, the fabric, every kind of
// link with its latency and its bandwidth in one direction, and what rings over the whole get.
std::string DrawText(const Cluster& cluster);

// Graphviz: every device of every node and every switch, one undirected edge for each pair of
// devices that is linked. Grows with the cluster; draw few nodes.
std::string DrawDot(const Cluster& cluster);

}  // namespace stepcast::topology
