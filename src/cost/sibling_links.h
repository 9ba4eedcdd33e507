#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/cost/group_loads.h"
#include "src/network/network.h"
#include "src/parallel/group_layout.h"
#include "src/topology/cluster.h"
#include "tl/expected.hpp"

namespace stepcast::cost {

// The links that a group shares with its siblings: the other groups of its layout, which run the
// same collective at the same time. Eight replica groups of a node with four cards put twice as
// much on each card as one group does. Likewise for messages: what one member of a group sends to
// another moves at the same time as between the members at these positions in every other group.
//
// Of the links, those count that the group uses, or another one for which its ranks stand, those of
// the same pipeline stage: a stage whose ranks meet inside of a node does not wait for the cards of
// one that crosses nodes.
//
// Loads are those of flow (link_loads.h), added up over groups. Siblings that have no node in
// common with the group, nor with one that has, and so on, are left out: what they share are links
// above the leaves, of which a path counts its nodes' part alone (Cluster::PathOf). Nodes are
// copies, so groups on more than kMostNodes nodes are looked at on that many, or on two whole
// leaves where these are larger, up to kMostBelowLeaf nodes each.
class SiblingLinks {
 public:
  static constexpr int kMostNodes = 16;
  static constexpr int kMostBelowLeaf = 64;

  // The lists of ranks that communicate at the same time, of a group's ranks: the group itself, or
  // pairs of which the first sends to the second.
  using Lists = std::function<std::vector<std::vector<int>>(const std::vector<int>& group)>;

  // `ranks`: a group of `layout`. `stage_ranks`: of each pipeline stage, one behind the other.
  // `cluster` outlives this, and so do `loads`, which all groups of all clusters may share.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads);
  // Collectives of the algorithm "pairwise" alone: of messages of S bytes, a kScatter of 2 S.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads,
               const Lists& lists);

  // Whether there are links of which a path of the group does not say all: siblings use them, too,
  // or they lead to other nodes.
  bool count() const { return count_; }
  // Whether siblings use them, as far as this looks.
  bool shared() const { return shared_; }

  // What links carry, with all groups together, for one byte of the size: `loads` times `scale`.
  struct OnLinks {
    std::vector<GroupLoads::Load> loads;  // the nodes looked at are numbered from 0
    double scale = 1;
  };
  // Bytes by link of a collective that all groups run. Requires a group of at least two ranks on a
  // real topology. Fails as flow does, where there is no route between ranks.
  tl::expected<OnLinks, network::Fault> Of(std::string_view algorithm, CollectiveKind kind) const;

 private:
  const topology::Cluster* cluster_;
  int ranks_ = 0;                         // of the group, or of a pair
  std::vector<std::vector<int>> groups_;  // on `nodes`, the group itself first
  std::vector<std::vector<int>> alike_;   // of these, those of its stage; empty: all of them
  bool shared_ = false;
  bool count_ = false;
  int nodes_ = 0;  // that they are on, numbered from 0
  GroupLoads* loads_;
};

}  // namespace stepcast::cost
