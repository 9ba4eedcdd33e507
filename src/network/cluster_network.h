#pragma once

#include <vector>

#include "src/network/network.h"
#include "src/topology/cluster.h"

namespace stepcast::network {

// A cluster's links as a network. Places 0 to devices - 1 are the ranks.
struct ClusterNetwork {
  Network network;
  std::vector<int> node_switches{};  // [node]: the place of its NVSwitches together; none: empty
  int fabric_switch = -1;            // the place of the topmost switches of the fabric; -1: none
};

// A flat cluster is one switch; its link's latency lies on the way up. Fails where ranks have no
// way to each other, or the flat cluster no link.
tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(const topology::Cluster& cluster);

}  // namespace stepcast::network
