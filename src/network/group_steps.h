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

// The steps of collectives over groups of a cluster's ranks, and the places of the participants.
// The algorithms are:
//
//   ring: inside a node, the rings over its links (topology/rings.h). Between nodes, one channel
//     for each NIC of the members of a node. A channel enters a node over one rail, visits all
//     members, and leaves over another rail, so that every NIC is used once in each direction.
//   tree: a chain inside a node, and a double binary tree between nodes for each NIC.
//   nvls: reducing switches, for the members of one node.
//   nvls_tree: nvls within each node, and trees between nodes.
//   pat: one rank per node.
//   pairwise: every message of an all-to-all, scatter, gather or send_recv separately.
//   node_aware: an all-to-all over the receiver's rail, if nodes have equal numbers of ranks.
//
// Other algorithms, and tables without an algorithm, are simulated as a ring.
namespace stepcast::network {

// Finds chains over the GPUs of a node in which only some pairs of GPUs have direct NVLinks. (On a
// DGX-1, neighbors in numerical order may have no NVLink.) Each chain uses the links that earlier
// chains used least.
class DirectChains {
 public:
  // `gpus` are distinct GPUs, as indices in the node.
  DirectChains(const topology::NodeRoutes& routes, std::span<const int> gpus);

  // Returns a chain over all GPUs, as positions in `gpus`, from a GPU in `first` to a GPU in
  // `last`, with NVLink between neighbors. `both_ways`: data are also sent back. Empty if there is
  // no chain, if the bounded search finds none, or if no two of the GPUs have a direct NVLink.
  std::vector<std::size_t> Lay(std::span<const std::size_t> first,
                               std::span<const std::size_t> last, bool both_ways);

 private:
  bool Extend();
  std::size_t Between(std::size_t a, std::size_t b) const { return a * size_ + b; }

  std::size_t size_;
  std::vector<int> links_;  // indexed by Between(a, b): NVLinks from a to b
  std::vector<int> used_;   // indexed by Between(a, b): NVLinks used by earlier chains
  bool joined_ = false;

  // State of one search:
  std::vector<bool> may_end_;
  std::vector<bool> visited_;
  std::vector<std::size_t> chain_;
  int chains_a_link_ = 0;  // maximum number of chains per link
  std::int64_t looks_left_ = 0;
};

struct PlacedSteps {
  std::unique_ptr<collective::StepList> list;
  std::vector<int> places;  // indexed by participant
};

class GroupSteps {
 public:
  // The network must outlive this object.
  explicit GroupSteps(const ClusterNetwork& network);

  // Returns the steps of a collective over `ranks`: at least two distinct ranks, with the root (if
  // any) first. `algorithm` is the algorithm's name in prices.
  PlacedSteps Make(std::span<const int> ranks, std::string_view algorithm, CollectiveKind kind,
                   Bytes size) const;

 private:
  // The members of a group by node, numbered as in the group.
  struct Members {
    std::vector<std::vector<int>> nodes;
    std::vector<std::vector<int>> gpus;               // indices of the members' GPUs in their node
    std::vector<const topology::NodeRoutes*> routes;  // indexed by node; null on a flat cluster
    std::vector<int> switches;                        // by node: place of its switches; -1: none
    bool even = true;                                 // nodes have equal numbers of members
    std::size_t most = 0;                             // largest number of members in a node
  };
  Members MembersOf(std::span<const int> ranks) const;
  const topology::NodeRoutes* RoutesOf(int node) const;
  bool flat() const { return routes_.empty(); }
  // Returns the number of channels between nodes.
  int RailsOf(const Members& members) const;
  // Returns the GPUs nearest to the NIC of rail `rail` of `rails`, as positions among the group's
  // members on node `node`.
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
  std::vector<std::unique_ptr<const topology::NodeRoutes>> routes_;  // by node type
};

}  // namespace stepcast::network
