#include "src/cost/sibling_links.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "src/base/check.h"
#include "src/cost/collective_price.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {
namespace {

// The nodes of a group, of the groups that have one of them in common, and so on: at most `most`.
std::set<int> NodesAround(const std::vector<int>& ranks, const parallel::GroupLayout& layout,
                          int gpus, int most) {
  std::set<int> nodes;
  std::set<int> seen;  // groups, by their first rank
  std::vector<std::vector<int>> open = {ranks};
  seen.insert(ranks.front());
  while (!open.empty()) {
    const std::vector<int> group = std::move(open.back());
    open.pop_back();
    for (const int rank : group) {
      const int node = rank / gpus;
      if (nodes.contains(node)) continue;
      if (static_cast<int>(nodes.size()) == most) return nodes;
      nodes.insert(node);
      for (int other = node * gpus; other < std::min((node + 1) * gpus, layout.ranks()); ++other) {
        if (!layout.Holds(other)) continue;
        if (seen.insert(layout.First(other)).second) open.push_back(layout.Ranks(other));
      }
    }
  }
  return nodes;
}

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
    : cluster_(&cluster), ranks_(static_cast<int>(ranks.size())) {
  if (layout.groups() < 2 || ranks.size() < 2 || cluster.flat()) return;
  const int gpus = cluster.gpus_per_node();
  const bool one_node = ranks.front() / gpus == ranks.back() / gpus;
  // A small cluster is looked at as it is, fabric and all.
  std::set<int> nodes;
  if (!one_node && cluster.nodes() <= kMostNodes) {
    for (int node = 0; node < cluster.nodes(); ++node) nodes.insert(node);
  } else {
    nodes = NodesAround(ranks, layout, gpus, kMostNodes);
  }
  nodes_ = static_cast<int>(nodes.size());
  std::set<int> seen;
  const auto add = [&](int rank) {
    if (!layout.Holds(rank) || !seen.insert(layout.First(rank)).second) return;
    std::vector<int> here;
    for (const int member : layout.Ranks(rank)) {
      const auto node = nodes.find(member / gpus);
      if (node == nodes.end()) continue;
      here.push_back(static_cast<int>(std::distance(nodes.begin(), node)) * gpus + member % gpus);
    }
    if (here.size() > 1) groups_.push_back(std::move(here));
  };
  add(ranks.front());
  for (const int node : nodes) {
    for (int rank = node * gpus; rank < std::min((node + 1) * gpus, layout.ranks()); ++rank) {
      add(rank);
    }
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
