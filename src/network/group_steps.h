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
#include "src/topology/routes.h"

// The step lists that groups of a cluster's ranks use, and where their participants are.
//
//   ring         inside a node, the rings over its links (topology/rings.h). Between nodes one
//                channel for each NIC that the members of a node have: it comes to a node over one
//                rail, visits all members and leaves over another, so that every NIC X
//   tree         inside a node a chain, between nodes a double binary tree for each NIC
//   nvls         where the members of a node have switches that reduce
//   nvls_tree    the same on every node, and trees between nodes
//   collnet      where the fabric has switches; nvls over several nodes, where they reduce, too
//   pat          one rank to a node
//   pairwise     all-to-all, scatter, gather, send_recv: every message for itself
//   node_aware   an all-to-all by way of the receiver's rail, where nodes have as many members
// Whatever else was asked for, and a table that does not say what ran, goes as a ring.
namespace stepcast::network {

struct PlacedSteps {
  std::unique_ptr<collective::StepList> list;
  std::vector<int> places;  // [participant]
};

class GroupSteps {
 public:
  // The network outlives this.
  explicit GroupSteps(const ClusterNetwork& network);

  // `ranks`: distinct, two at least; the root of a collective that has one is the first.
  // `algorithm` as prices name it.
  PlacedSteps Make(std::span<const int> ranks, std::string_view algorithm, CollectiveKind kind,
                   Bytes size) const;

 private:
  // The members of a group by node: their numbers in the group.
  struct Members {
    std::vector<std::vector<int>> nodes;
    std::vector<std::vector<int>> gpus;               // of the node, in the same places
    std::vector<const topology::NodeRoutes*> routes;  // of the node; null on a flat cluster
    std::vector<int> switches;                        // the node's, as a place; -1: none
    bool even = true;                                 // as many in every node
    std::size_t most = 0;                             // in a node
  };
  Members MembersOf(std::span<const int> ranks) const;
  const topology::NodeRoutes* RoutesOf(int node) const;
  bool flat() const { return routes_.empty(); }
  // Channels between nodes.
  int RailsOf(const Members& members) const;
  // Positions among the GPUs of the `node`th node of those that own the NIC of the `rail`th of
  // `rails`.
  static std::vector<std::size_t> NearRail(const Members& members, std::size_t node,
                                           std::size_t rail, std::size_t rails);
  std::vector<std::vector<int>> RingOrders(const Members& members) const;
  std::vector<collective::Tree> Trees(const Members& members) const;
  struct Request;
  static PlacedSteps NvlsSteps(const Request& request);
  static PlacedSteps NvlsTreeSteps(const Request& request);
  PlacedSteps CollNetSteps(const Request& request) const;
  static PlacedSteps MessageSteps(const Request& request);

  const ClusterNetwork& network_;
  int gpus_per_node_ = 1;
  std::vector<std::unique_ptr<const topology::NodeRoutes>> routes_;  // [ClusterNetwork::nodes]
};

}  // namespace stepcast::network
