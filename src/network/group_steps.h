#pragma once

#include <cstddef>
#include <cstdint>
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

// Chains over GPUs of a node that NVLinks join directly, and not each with each: of a DGX-1 the
// order of the GPUs' numbers would leave NVLink. Chain after chain is laid over the links that
// those before it used least.
class DirectChains {
 public:
  // `gpus`: of the node, none twice.
  DirectChains(const topology::NodeRoutes& routes, std::span<const int> gpus);

  // Positions in `gpus`, each once: from one of `first` to one of `last`, neighbours joined by
  // NVLink. `both_ways`: data come back along it. Empty where there is no such chain, or none is
  // found within a bounded search; always empty where no NVLink joins two of the GPUs directly.
  std::vector<std::size_t> Lay(std::span<const std::size_t> first,
                               std::span<const std::size_t> last, bool both_ways);

 private:
  bool Extend();
  std::size_t Between(std::size_t a, std::size_t b) const { return a * size_ + b; }

  std::size_t size_;
  std::vector<int> links_;  // [Between(a, b)]: NVLinks from a to b
  std::vector<int> used_;   // [Between(a, b)]: by chains laid before
  bool joined_ = false;

  // Of one search.
  std::vector<bool> may_end_;
  std::vector<bool> visited_;
  std::vector<std::size_t> chain_;
  int chains_a_link_ = 0;  // at most
  std::int64_t looks_left_ = 0;
};

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
