#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/rates.h"
#include "src/network/network.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"

namespace stepcast::network {

// A cluster's links as a network. Places 0 to devices - 1 are the ranks.
struct ClusterNetwork {
  Network network;
  std::vector<int> node_switches{};  // [node]: the place of its NVSwitches together; -1: none
  int fabric_switch = -1;            // the place of the topmost switches of the fabric; -1: none
  std::vector<topology::NodesOfType> nodes{};  // of a flat cluster none
};

// A link that is worse than its description, both ways.
struct LinkChange {
  std::string from, to;                // devices by name: "node0/nic3"
  std::optional<Bandwidth> bandwidth;  // what all parallel links together carry; none: they failed
};

// A flat cluster is one switch; its link's latency lies on the link up. Fails where ranks have no
// route to each other, the flat cluster no link, or a change names links that do not exist. The
// cluster outlives the network.
tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(
    const topology::Cluster& cluster, std::span<const LinkChange> changes = {});
// Nodes of several types, of as many ranks each, below the switches of one fabric; null: a node
// alone.
tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(
    std::vector<topology::NodesOfType> nodes, const topology::Fabric* fabric,
    std::span<const LinkChange> changes = {});

}  // namespace stepcast::network
