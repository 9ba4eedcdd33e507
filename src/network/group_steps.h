#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/collective/step_list.h"
#include "src/collective/tree.h"
#include "src/network/cluster_network.h"
#include "src/topology/cluster.h"
#include "src/topology/routes.h"

// The step lists that groups of a cluster's ranks use, and where their participants are.
//
//   ring         inside a node, the rings over its links (topology/rings.h). Between nodes one
//                channel for each NIC that the members of a node have: it comes to a node over one
//                rail, visits all members and leaves over another, so that every NIC sends and
//                receives for one channel. A broadcast is the ring cut open.
//   tree         inside a node a chain, between nodes a double binary tree for each NIC
//   nvls         where the members of a node have switches that reduce
//   nvls_tree    the same on every node, and trees between nodes
//   collnet      where the fabric has switches
//   pat          one rank to a node
// Whatever else was asked for, and a table that does not say what ran, goes as a ring.
namespace stepcast::network {

struct PlacedSteps {
  std::unique_ptr<collective::StepList> list;
  std::vector<int> places;  // [participant]
};

class GroupSteps {
 public:
  // Both outlive this.
  GroupSteps(const topology::Cluster& cluster, const ClusterNetwork& network);

  // `ranks`: distinct, two at least. `algorithm` as prices name it. Kinds: all-reduce,
  // reduce-scatter, all-gather, broadcast.
  PlacedSteps Make(std::span<const int> ranks, std::string_view algorithm, CollectiveKind kind,
                   Bytes size) const;

 private:
  // The members of a group by node: their numbers in the group.
  struct Members {
    std::vector<std::vector<int>> nodes;
    std::vector<std::vector<int>> gpus;  // of the node, in the same places
    bool even = true;                    // as many in every node
    std::size_t most = 0;                // in a node
    int first_node = 0;
  };
  Members MembersOf(std::span<const int> ranks) const;
  // Channels between nodes.
  int RailsOf(const Members& members) const;
  // Positions in `gpus` of those that own the NIC of the `rail`th of `rails`.
  std::vector<std::size_t> NearRail(const std::vector<int>& gpus, std::size_t rail,
                                    std::size_t rails) const;
  std::vector<std::vector<int>> RingOrders(const Members& members) const;
  std::vector<collective::Tree> Trees(const Members& members) const;

  const topology::Cluster& cluster_;
  const ClusterNetwork& network_;
  std::unique_ptr<topology::NodeRoutes> routes_;  // null on a flat cluster
};

}  // namespace stepcast::network
