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

// The lists of a group, and of other groups as far as they have to do with some of the nodes.
class ListsAround {
 public:
  ListsAround(const std::vector<int>& ranks, const parallel::GroupLayout& layout, int gpus,
              const SiblingLinks::Lists& lists_of)
      : layout_(layout), gpus_(gpus), lists_of_(lists_of), lists_(lists_of(ranks)) {
    if (!layout.empty()) seen_.insert(layout.First(ranks.front()));
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

  // The nodes of the first list, of the lists that have one of them in common, and so on: at most
  // `most`.
  std::set<int> Nodes(std::size_t most) {
    std::set<int> nodes;
    const auto take = [&](const std::vector<int>& list) {
      for (const int rank : list) {
        if (nodes.size() == most) return;
        if (nodes.insert(rank / gpus_).second) Add(rank / gpus_);
      }
    };
    const auto touches = [&](const std::vector<int>& list) {
      return std::any_of(list.begin(), list.end(),
                         [&](int rank) { return nodes.contains(rank / gpus_); });
    };
    take(std::vector<int>(lists_.front()));
    for (std::size_t before = 0; before != nodes.size() && nodes.size() < most;) {
      before = nodes.size();
      for (std::size_t i = 0; i < lists_.size() && nodes.size() < most; ++i) {
        if (touches(lists_[i])) take(std::vector<int>(lists_[i]));
      }
    }
    return nodes;
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
// (N - 1) / N. An inner node of a tree has its neighbours in the tree alone, and a card that talks
// to switches that reduce sends the buffer once.
bool GrowsWithRanks(std::string_view algorithm) {
  return !algorithm.ends_with("tree") && !algorithm.starts_with("collnet");
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
                           const parallel::GroupLayout& layout)
    : SiblingLinks(cluster, ranks, layout, [](const std::vector<int>& group) {
        return std::vector<std::vector<int>>{group};
      }) {}

SiblingLinks::SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
                           const parallel::GroupLayout& layout, const Lists& lists)
    : cluster_(&cluster) {
  if (ranks.size() < 2 || cluster.flat()) return;
  const int gpus = cluster.gpus_per_node();
  ListsAround around(ranks, layout, gpus, lists);
  if (layout.groups() < 2 && around.lists().size() < 2) return;
  ranks_ = static_cast<int>(around.lists().front().size());
  bool one_node = true;
  for (const std::vector<int>& own : around.lists()) {
    one_node = one_node && own.front() / gpus == own.back() / gpus;
  }
  // A small cluster is looked at as it is, fabric and all.
  std::set<int> nodes;
  if (!one_node && cluster.nodes() <= kMostNodes) {
    for (int node = 0; node < cluster.nodes(); ++node) nodes.insert(node);
  } else {
    nodes = around.Nodes(kMostNodes);
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
    if (here.size() > 1) groups_.push_back(std::move(here));
  }
  const bool leaves = !one_node && cluster.fabric()->kind != topology::FabricKind::kOneSwitch;
  if (!leaves && !ShareNodes(groups_, gpus, nodes_)) groups_.clear();
}

tl::expected<SiblingLinks::Busy, network::Fault> SiblingLinks::Of(const char* algorithm,
                                                                  CollectiveKind kind) {
  STEPCAST_CHECK(shared(), "a group without siblings has its links to itself");
  const auto found = known_.find({algorithm, kind});
  if (found != known_.end()) return found->second;
  const auto busy = WorkOut(algorithm, kind);
  if (busy) known_.emplace(std::pair(algorithm, kind), *busy);
  return busy;
}

tl::expected<SiblingLinks::Busy, network::Fault> SiblingLinks::WorkOut(const char* algorithm,
                                                                       CollectiveKind kind) {
  if (!network_) {
    if (nodes_ < cluster_->nodes()) {
      part_ = std::make_unique<const topology::Cluster>(*cluster_->node_type(), *cluster_->fabric(),
                                                        nodes_);
    }
    const topology::Cluster& cluster = part_ == nullptr ? *cluster_ : *part_;
    auto network = network::NetworkOf(cluster);
    if (!network) return tl::unexpected(network.error().front());
    network_.emplace(*std::move(network));
    loads_.emplace(cluster, *network_);
  }
  const network::Network& links = network_->network;
  std::vector<double> busy(static_cast<std::size_t>(links.links()));
  Busy result;
  for (const std::vector<int>& group : groups_) {
    const auto load = loads_->Of(group, algorithm, kind);
    if (!load) return tl::unexpected(load.error());
    for (const auto& [link, seconds] : load->busy) busy[link] += seconds;
  }
  bool nvlink = false;
  for (int id = 0; id < links.links() && !nvlink; ++id) nvlink = links.link(id).nvlink;
  for (int id = 0; id < links.links(); ++id) {
    const bool scale_up = nvlink ? links.link(id).nvlink : links.IsInsideNode(id);
    double& longest = scale_up ? result.scale_up : result.network;
    longest = std::max(longest, busy[static_cast<std::size_t>(id)]);
  }
  // A ring's links carry (N - 1) / N of the buffer: more of it in all of a group than in a part.
  const auto here = static_cast<int>(groups_.front().size());
  if (here < ranks_ && GrowsWithRanks(algorithm)) {
    constexpr Bytes kAny = GiB(1);
    const double scale = WireBytesPerRank(kind, kAny, ranks_) / WireBytesPerRank(kind, kAny, here);
    result.scale_up *= scale;
    result.network *= scale;
  }
  return result;
}

}  // namespace stepcast::cost
