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

// The links of a cluster as a network. Places 0 to devices - 1 are the GPUs of the ranks.
struct ClusterNetwork {
  Network network;
  std::vector<int> node_switches{};  // by node: the place of its NVSwitches; -1: no NVSwitch
  int fabric_switch = -1;            // place of the topmost switches; -1: no switches
  std::vector<topology::NodesOfType> nodes{};  // empty for a flat cluster
};

// A changed bandwidth of a link, in both directions.
struct LinkChange {
  std::string from, to;                // device names: "node0/nic3"
  std::optional<Bandwidth> bandwidth;  // sum over parallel links; none: the links failed
};

// Returns the network of a cluster. A flat cluster is one switch; the link from a rank to the
// switch has the complete latency. Fails if there is no route between some ranks, if a flat cluster
// has no link, or if a change refers to unknown links. The cluster must outlive the network.
tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(
    const topology::Cluster& cluster, std::span<const LinkChange> changes = {});
// This overload is for nodes of several types with equal numbers of ranks and one fabric. `fabric`
// is null for a single node.
tl::expected<ClusterNetwork, std::vector<Fault>> NetworkOf(
    std::vector<topology::NodesOfType> nodes, const topology::Fabric* fabric,
    std::span<const LinkChange> changes = {});

}  // namespace stepcast::network
