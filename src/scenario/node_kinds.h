#pragma once

#include <span>
#include <vector>

#include "src/scenario/scenario.h"
#include "src/topology/nodes_of_type.h"

// Clusters of several kinds of nodes (Scenario::other_nodes). Kind 0 is that of the first nodes.
//
// What a rank does by itself is priced on its own kind of node. So is its side of what it does with
// others, as if all nodes were of that kind; and because they finish together, that takes what it
// takes on the slower kind: rings and trees go at the rate of their slowest link.
namespace stepcast::scenario {

int KindCount(const Scenario& scenario);
// Of the node that a rank is on.
int KindOfRank(const Scenario& scenario, int rank);
// The kinds that ranks are of, ascending, each once.
std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks);
// All nodes, kind by kind. Requires a cluster that is not flat, and lives as long as the scenario.
std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario);
// The scenario if all nodes of its cluster were of that kind.
Scenario OfKind(const Scenario& scenario, int kind);

}  // namespace stepcast::scenario
