#include "src/cost/sibling_links.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/cost/collective_price.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {
namespace {

// Nodes below one leaf share its uplinks: a leaf is looked at as a whole or, where it is larger
// than that, node by node.
int NodesOfLeaf(const topology::Cluster& cluster) {
  const topology::Fabric& fabric = *cluster.fabric();
  const bool tree = fabric.kind == topology::FabricKind::kFatTree;
  return tree && fabric.nodes_per_unit <= SiblingLinks::kMostBelowLeaf ? fabric.nodes_per_unit : 1;
}

// The lists of a group, and of other groups as far as they have to do with some of the nodes.
class ListsAround {
 public:
  ListsAround(const std::vector<int>& ranks, const parallel::GroupLayout& layout, int gpus,
              const SiblingLinks::Lists& lists_of)
      : layout_(layout), gpus_(gpus), lists_of_(lists_of), lists_(lists_of(ranks)) {
    seen_.insert(layout.empty() ? ranks.front() : layout.First(ranks.front()));
  }

  // Those of all groups with a rank on the node, too.
  void Add(int node) {
    for (int rank = node * gpus_; rank < std::min((node + 1) * gpus_, layout_.ranks()); ++rank) {
      if (!layout_.Holds(rank) || !seen_.insert(layout_.First(rank)).second) continue;
      for (std::vector<int>& list : lists_of_(layout_.Ranks(rank))) {
        lists_.push_back(std::move(list));
      }
    }
  }

  // The nodes of the first list with those below the same leaves (so many nodes each), of the lists
  // that have one of them in common, and so on: at most `most` of the cluster's `nodes`.
  std::set<int> Nodes(int leaf, int nodes, std::size_t most) {
    std::set<int> taken;
    const auto take = [&](const std::vector<int>& list) {
      for (const int rank : list) {
        const int first = rank / gpus_ / leaf * leaf;
        for (int node = first; node < std::min(first + leaf, nodes); ++node) {
          if (taken.size() == most) return;
          if (taken.insert(node).second) Add(node);
        }
      }
    };
    const auto touches = [&](const std::vector<int>& list) {
      return std::any_of(list.begin(), list.end(),
                         [&](int rank) { return taken.contains(rank / gpus_); });
    };
    take(std::vector<int>(lists_.front()));
    for (std::size_t before = 0; before != taken.size() && taken.size() < most;) {
      before = taken.size();
      for (std::size_t i = 0; i < lists_.size() && taken.size() < most; ++i) {
        if (touches(lists_[i])) take(std::vector<int>(lists_[i]));
      }
    }
    return taken;
  }

  const std::vector<std::vector<int>>& lists() const { return lists_; }

 private:
  const parallel::GroupLayout& layout_;
  const int gpus_;
  const SiblingLinks::Lists& lists_of_;
  std::vector<std::vector<int>> lists_;
  std::set<int> seen_;  // groups, by their first rank
};

// Whether what a link carries grows with the number of nodes even where there are many: as
// (N - 1) / N. An inner node of a tree has its neighbours in the tree alone, a chain passes on the
// whole buffer, and a card that talks to switches that reduce sends it once.
bool GrowsWithRanks(std::string_view algorithm, CollectiveKind kind) {
  return !algorithm.ends_with("tree") && !algorithm.starts_with("collnet") &&
         kind != CollectiveKind::kBroadcast && kind != CollectiveKind::kReduce;
}

// Whether ranks of several groups are on one node.
bool ShareNodes(const std::vector<std::vector<int>>& groups, int gpus, int nodes) {
  std::vector<int> group_of(static_cast<std::size_t>(nodes), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int rank : groups[g]) {
      int& other = group_of[static_cast<std::size_t>(rank / gpus)];
      if (other >= 0 && other != static_cast<int>(g)) return true;
      other = static_cast<int>(g);
    }
  }
  return false;
}

}  // namespace

SiblingLinks::SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
                           const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads)
    : SiblingLinks(cluster, ranks, layout, stage_ranks, loads, [](const std::vector<int>& group) {
        return std::vector<std::vector<int>>{group};
      }) {}

SiblingLinks::SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
                           const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads,
                           const Lists& lists)
    : cluster_(&cluster), loads_(&loads) {
  if (ranks.size() < 2 || cluster.flat()) return;
  const int gpus = cluster.gpus_per_node();
  ListsAround around(ranks, layout, gpus, lists);
  ranks_ = static_cast<int>(around.lists().front().size());
  bool one_node = true;
  std::set<int> stages;
  for (const std::vector<int>& own : around.lists()) {
    one_node = one_node && own.front() / gpus == own.back() / gpus;
    stages.insert(own.front() / stage_ranks);
  }
  // A small cluster is looked at as it is, fabric and all.
  const int leaf = one_node || cluster.nodes() == 1 ? 1 : NodesOfLeaf(cluster);
  const int most = std::max(kMostNodes, 2 * leaf);
  std::set<int> nodes;
  if (cluster.nodes() <= most) {
    for (int node = 0; node < cluster.nodes(); ++node) nodes.insert(node);
  } else {
    nodes = around.Nodes(leaf, cluster.nodes(), static_cast<std::size_t>(most));
  }
  for (const int node : nodes) around.Add(node);
  nodes_ = static_cast<int>(nodes.size());
  for (const std::vector<int>& list : around.lists()) {
    std::vector<int> here;
    for (const int member : list) {
      const auto node = nodes.find(member / gpus);
      if (node == nodes.end()) continue;
      here.push_back(static_cast<int>(std::distance(nodes.begin(), node)) * gpus + member % gpus);
    }
    if (here.size() < 2) continue;
    if (stages.contains(list.front() / stage_ranks)) alike_.push_back(here);
    groups_.push_back(std::move(here));
  }
  if (alike_.size() == groups_.size()) alike_.clear();
  const bool leaves = !one_node && cluster.fabric()->kind != topology::FabricKind::kOneSwitch;
  shared_ = groups_.size() > 1 && (leaves || ShareNodes(groups_, gpus, nodes_));
  count_ = shared_ || !one_node;
}

tl::expected<SiblingLinks::OnLinks, network::Fault> SiblingLinks::Of(std::string_view algorithm,
                                                                     CollectiveKind kind) const {
  STEPCAST_CHECK(!groups_.empty(), "only groups on links load them");
  const auto known = loads_->Of(*cluster_, nodes_, groups_, algorithm, kind);
  if (!known) return tl::unexpected(known.error());
  std::vector<GroupLoads::Load> loads = **known;
  if (!alike_.empty()) {
    const auto own = loads_->Of(*cluster_, nodes_, alike_, algorithm, kind);
    if (!own) return tl::unexpected(own.error());
    std::set<std::uint32_t> used;
    for (const GroupLoads::Load& load : **own) used.insert(load.link);
    std::erase_if(loads, [&](const GroupLoads::Load& load) { return !used.contains(load.link); });
  }
  // A ring's links carry (N - 1) / N of the buffer: more of it in all of a group than in a part.
  double scale = 1;
  const auto here = static_cast<int>(groups_.front().size());
  if (here < ranks_ && GrowsWithRanks(algorithm, kind)) {
    constexpr Bytes kAny = GiB(1);
    scale = WireBytesPerRank(kind, kAny, ranks_) / WireBytesPerRank(kind, kAny, here);
  }
  return OnLinks{.loads = std::move(loads), .scale = scale};
}

}  // namespace stepcast::cost
