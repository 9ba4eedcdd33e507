#include "src/scenario/node_kinds.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {

int KindCount(const Scenario& scenario) {
  return 1 + static_cast<int>(scenario.other_nodes.size());
}

int KindOfRank(const Scenario& scenario, int rank) {
  if (scenario.other_nodes.empty()) return 0;
  const int node = rank / scenario.cluster->gpus_per_node();
  int end = scenario.cluster->nodes();  // of the nodes before a kind, from the last
  for (int kind = KindCount(scenario) - 1; kind > 0; --kind) {
    end -= scenario.other_nodes[static_cast<std::size_t>(kind) - 1].nodes;
    if (node >= end) return kind;
  }
  return 0;
}

std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks) {
  std::vector<int> kinds;
  for (const int rank : ranks) kinds.push_back(KindOfRank(scenario, rank));
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario) {
  const auto alike = [](const topology::Cluster& cluster, int nodes) {
    const topology::Fabric* fabric = cluster.fabric();
    return topology::NodesOfType{cluster.node_type(),
                                 fabric == nullptr ? topology::LinkSpec() : fabric->link, nodes,
                                 cluster.gpus_per_node()};
  };
  int first = scenario.cluster->nodes();
  for (const KindOfNode& kind : scenario.other_nodes) first -= kind.nodes;
  std::vector<topology::NodesOfType> nodes = {alike(*scenario.cluster, first)};
  for (const KindOfNode& kind : scenario.other_nodes) {
    nodes.push_back(alike(*kind.cluster, kind.nodes));
  }
  return nodes;
}

Scenario OfKind(const Scenario& scenario, int kind) {
  STEPCAST_CHECK(kind >= 0 && kind < KindCount(scenario), "the cluster has this kind of node");
  Scenario own = scenario;
  own.other_nodes.clear();
  if (kind == 0) return own;
  const KindOfNode& nodes = scenario.other_nodes[static_cast<std::size_t>(kind) - 1];
  own.cluster = nodes.cluster;
  own.calibration = nodes.calibration;
  own.gpu = nodes.gpu;
  own.cluster_location = nodes.location;
  own.plan.training.dispatch = nodes.dispatch;
  return own;
}

}  // namespace stepcast::scenario
