#include "src/cost/priced_machine.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/collective_price.h"
#include "src/cost/device_speed.h"
#include "src/cost/link_loads.h"
#include "src/cost/nccl_setting.h"
#include "src/network/cluster_network.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {
namespace {

// These few nodes represent all, so the collisions of one specific hash are meaningless. Expected
// collisions are already in the path (Cluster::PathOf).
std::optional<topology::Fabric> FabricOf(const topology::Cluster& cluster) {
  if (cluster.fabric() == nullptr) return std::nullopt;
  topology::Fabric fabric = *cluster.fabric();
  fabric.routing = {};
  return fabric;
}

}  // namespace

struct GroupLoads::Nodes {
  Nodes(const topology::Cluster& of, int nodes)
      : cluster(*of.node_type(), FabricOf(of), nodes, of.gpus_per_node()) {}

  bool IsOf(const topology::Cluster& other, int nodes) const {
    return cluster.nodes() == nodes && cluster.gpus_per_node() == other.gpus_per_node() &&
           *cluster.node_type() == *other.node_type() && FabricOf(cluster) == FabricOf(other);
  }

  const topology::Cluster cluster;
  std::optional<network::ClusterNetwork> network;
  std::optional<LinkLoads> loads;
  std::vector<const std::pair<const std::string, std::uint32_t>*> links;  // [link]: in links_
  bool nvlink = false;                                                    // some of them
};

GroupLoads::GroupLoads() = default;
GroupLoads::~GroupLoads() = default;

tl::expected<GroupLoads::Nodes*, network::Fault> GroupLoads::NodesOf(
    const topology::Cluster& cluster, int nodes) {
  const auto known = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& one) { return one->IsOf(cluster, nodes); });
  if (known != nodes_.end()) return known->get();
  auto added = std::make_unique<Nodes>(cluster, nodes);
  auto network = network::NetworkOf(added->cluster);
  if (!network) return tl::unexpected(network.error().front());
  added->network.emplace(*std::move(network));
  added->loads.emplace(*added->network);
  const network::Network& links = added->network->network;
  for (int id = 0; id < links.links(); ++id) {
    const auto next = static_cast<std::uint32_t>(links_.size());
    added->links.push_back(&*links_.try_emplace(links.LinkName(id), next).first);
    added->nvlink = added->nvlink || links.link(id).nvlink;
  }
  return nodes_.emplace_back(std::move(added)).get();
}

tl::expected<const std::vector<GroupLoads::Load>*, network::Fault> GroupLoads::Of(
    const topology::Cluster& cluster, int nodes, const Groups& groups, std::string_view algorithm,
    CollectiveKind kind) {
  STEPCAST_TAKE(const auto on, NodesOf(cluster, nodes));
  const Key key(on, groups, algorithm, kind);
  if (const auto found = known_.find(key); found != known_.end()) return &found->second;
  const network::Network& links = on->network->network;
  std::vector<double> busy(static_cast<std::size_t>(links.links()));
  for (const std::vector<int>& group : groups) {
    STEPCAST_TAKE(const auto load, on->loads->Of(group, algorithm, kind));
    for (const auto& [link, seconds] : load.busy) busy[link] += seconds;
  }
  std::vector<Load> loads;
  for (int id = 0; id < links.links(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    if (busy[at] == 0) continue;
    const auto& [name, number] = *on->links[at];
    loads.push_back({.link = number,
                     .name = name,
                     .scale_up = on->nvlink ? links.link(id).nvlink : links.IsInsideNode(id),
                     .busy = busy[at]});
  }
  if (known_.size() == kMostKnown) known_.clear();
  return &known_.emplace(key, std::move(loads)).first->second;
}

namespace {

// The nodes evaluated per leaf, which share its uplinks: the whole leaf, or single nodes if the
// leaf is larger than the limit.
int NodesOfLeaf(const topology::Cluster& cluster) {
  const topology::Fabric& fabric = *cluster.fabric();
  const bool tree = fabric.kind == topology::FabricKind::kFatTree;
  return tree && fabric.nodes_per_unit <= SiblingLinks::kMostBelowLeaf ? fabric.nodes_per_unit : 1;
}

// The lists of a group, and of other groups that share some of its nodes.
class ListsAround {
 public:
  ListsAround(const std::vector<int>& ranks, const parallel::GroupLayout& layout, int gpus,
              const SiblingLinks::Lists& lists_of)
      : layout_(layout), gpus_(gpus), lists_of_(lists_of), lists_(lists_of(ranks)) {
    seen_.insert(layout.empty() ? ranks.front() : layout.First(ranks.front()));
  }

  // Adds the node, and the nodes of all groups that have a rank on this node.
  void Add(int node) {
    for (int rank = node * gpus_; rank < std::min((node + 1) * gpus_, layout_.ranks()); ++rank) {
      if (!layout_.Holds(rank) || !seen_.insert(layout_.First(rank)).second) continue;
      for (std::vector<int>& list : lists_of_(layout_.Ranks(rank))) {
        lists_.push_back(std::move(list));
      }
    }
  }

  // The nodes of the first list, plus those below the same leaves (`leaf` nodes each), plus those
  // of lists that share a node with these, and so on. At most `most` of the cluster's `nodes`.
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

// Whether a link's load still grows with the number of nodes, as (N - 1) / N. An inner node of a
// tree talks only to its neighbors, a chain passes the whole buffer on, and a card that talks to
// reducing switches sends it once: these do not grow.
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
  // A small cluster is evaluated completely, with its fabric.
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
  STEPCAST_CHECK(!groups_.empty(), "only a group that uses links can add load to links");
  STEPCAST_TAKE(const auto known, loads_->Of(*cluster_, nodes_, groups_, algorithm, kind));
  std::vector<GroupLoads::Load> loads = *known;
  if (!alike_.empty()) {
    STEPCAST_TAKE(const auto own, loads_->Of(*cluster_, nodes_, alike_, algorithm, kind));
    std::set<std::uint32_t> used;
    for (const GroupLoads::Load& load : *own) used.insert(load.link);
    std::erase_if(loads, [&](const GroupLoads::Load& load) { return !used.contains(load.link); });
  }
  // The links of a ring carry (N - 1) / N of the buffer, which is more for the whole group than for
  // a part of it.
  double scale = 1;
  const auto here = static_cast<int>(groups_.front().size());
  if (here < ranks_ && GrowsWithRanks(algorithm, kind)) {
    constexpr Bytes kAny = GiB(1);
    scale = WireBytesPerRank(kind, kAny, ranks_) / WireBytesPerRank(kind, kAny, here);
  }
  return OnLinks{.loads = std::move(loads), .scale = scale};
}

namespace {

// The time that a link is busy with each use.
using Link = std::vector<double>;

bool NeverBusier(const Link& link, const Link& other) {
  constexpr double kRounding = 1 + 1e-9;
  for (std::size_t use = 0; use < link.size(); ++use) {
    if (link[use] > other[use] * kRounding) return false;
  }
  return true;
}

// The links that can be the limit, busiest first, at most `most`. If there are more, the last entry
// takes, for each use, the largest load of the rest.
std::vector<Link> Deciding(std::vector<Link> links, std::size_t most) {
  const auto total = [](const Link& link) {
    return std::accumulate(link.begin(), link.end(), 0.0);
  };
  std::stable_sort(links.begin(), links.end(),
                   [&](const Link& a, const Link& b) { return total(a) > total(b); });
  std::vector<Link> deciding;
  for (Link& link : links) {
    const bool needless = std::any_of(deciding.begin(), deciding.end(),
                                      [&](const Link& other) { return NeverBusier(link, other); });
    if (needless) continue;
    if (deciding.size() < most) {
      deciding.push_back(std::move(link));
      continue;
    }
    for (std::size_t use = 0; use < link.size(); ++use) {
      deciding.back()[use] = std::max(deciding.back()[use], link[use]);
    }
  }
  return deciding;
}

// The time that each link is busy with each use.
class LinksInUse {
 public:
  explicit LinksInUse(std::size_t uses) : uses_(uses) {}

  double* At(const GroupLoads::Load& load) {
    if (row_of_.size() <= load.link) row_of_.resize(load.link + 1, kNone);
    std::size_t& row = row_of_[load.link];
    if (row == kNone) {
      row = names_.size();
      names_.push_back(load.name);
      busy_.resize(busy_.size() + uses_);
    }
    return &busy_[row * uses_];
  }

  // Nodes are copies, and so are most of their links. Among equal links the first by name stands
  // for all.
  std::vector<Link> Distinct() const {
    std::map<Link, std::string_view> first;
    for (std::size_t row = 0; row < names_.size(); ++row) {
      const double* begin = &busy_[row * uses_];
      const auto [known, added] = first.try_emplace(Link(begin, begin + uses_), names_[row]);
      if (!added) known->second = std::min(known->second, names_[row]);
    }
    std::vector<std::pair<std::string_view, const Link*>> by_name;
    for (const auto& [link, name] : first) by_name.emplace_back(name, &link);
    std::sort(by_name.begin(), by_name.end());
    std::vector<Link> links;
    for (const auto& [name, link] : by_name) links.push_back(*link);
    return links;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t uses_;
  std::vector<std::size_t> row_of_;      // [GroupLoads::Load::link]
  std::vector<std::string_view> names_;  // [row]
  std::vector<double> busy_;             // [row][use]
};

}  // namespace

tl::expected<std::vector<SharedLinks::Busy>, network::Fault> SharedLinks::Of(
    const std::vector<Use>& uses) {
  if (const auto found = known_.find(uses); found != known_.end()) return found->second;
  LinksInUse in_node(uses.size()), to_network(uses.size());
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const auto& [group, algorithm, kind] = uses[use];
    STEPCAST_TAKE(const auto on_links, group->Of(algorithm, kind));
    for (const GroupLoads::Load& load : on_links.loads) {
      (load.scale_up ? in_node : to_network).At(load)[use] = load.busy * on_links.scale;
    }
  }
  std::vector<Busy> result(uses.size(), Busy{});
  const auto add = [&](const LinksInUse& links, Resource first, int most) {
    auto at = static_cast<std::size_t>(first) - static_cast<std::size_t>(Resource::kNodeLinks);
    for (const Link& link : Deciding(links.Distinct(), static_cast<std::size_t>(most))) {
      for (std::size_t use = 0; use < uses.size(); ++use) result[use][at] = link[use];
      ++at;
    }
  };
  constexpr int kInNode =
      static_cast<int>(Resource::kNetworkLinks) - static_cast<int>(Resource::kNodeLinks);
  add(in_node, Resource::kNodeLinks, kInNode);
  add(to_network, Resource::kNetworkLinks, kSharedLinks - kInNode);
  constexpr std::size_t kMostKnown = 1024;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(uses, result);
  return result;
}

using scenario::Scenario;

PricedMachine::PricedMachine(const scenario::Scenario& scenario, GroupLoads& group_loads)
    : cluster(scenario.cluster),
      calibration(scenario.calibration),
      gpu(scenario.gpu),
      algorithm(scenario.algorithm),
      nccl_algo(scenario.nccl_algo),
      nccl_proto(scenario.nccl_proto),
      collnet(scenario.nccl_collnet),
      analytic(scenario.network == scenario::Fidelity::kAnalytic),
      version(scenario.plan.software.nccl),
      driver(scenario.plan.software.driver),
      loads(group_loads) {
  auto setting = NcclSettingOf(scenario);
  if (!setting) return;
  setting->gpu = &*gpu;  // the scenario may not live as long
  nccl.emplace(std::move(*setting));
}

bool PricedMachine::IsOf(const scenario::Scenario& scenario) const {
  return cluster == scenario.cluster && calibration == scenario.calibration &&
         algorithm == scenario.algorithm && nccl_algo == scenario.nccl_algo &&
         nccl_proto == scenario.nccl_proto && collnet == scenario.nccl_collnet &&
         analytic == (scenario.network == scenario::Fidelity::kAnalytic) &&
         version == scenario.plan.software.nccl && driver == scenario.plan.software.driver;
}

const PricedMachine::Group& PricedMachine::GroupOf(const program::ProcessGroup& wanted,
                                                   int stage_ranks,
                                                   const std::optional<MessageRoute>& message) {
  // There are few groups, and most differ in size.
  for (const auto& group : groups) {
    if (group->message == message && group->ranks == wanted.ranks &&
        group->layout == wanted.layout && group->stage_ranks == stage_ranks) {
      return *group;
    }
  }
  if (message) return AddMessages(wanted, stage_ranks, *message);
  const std::vector<int>& ranks = wanted.ranks;
  groups.push_back(std::make_unique<const Group>(
      Group{.ranks = ranks,
            .message = std::nullopt,
            .layout = wanted.layout,
            .stage_ranks = stage_ranks,
            .path = PathOf(ranks),
            .shape = nccl ? ShapeOf(ranks, cluster->gpus_per_node()) : GroupShape(),
            .communicator = {},
            .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, ranks, wanted.layout,
                                                                  stage_ranks, loads)
                                 : nullptr}));
  return *groups.back();
}

const PricedMachine::Group& PricedMachine::AddMessages(const program::ProcessGroup& group,
                                                       int stage_ranks,
                                                       const MessageRoute& message) {
  const auto pair_of = [](const std::vector<int>& ranks, int from, int to) {
    return std::vector<int>{ranks[static_cast<std::size_t>(from)],
                            ranks[static_cast<std::size_t>(to)]};
  };
  const auto pairs_of = [=](const std::vector<int>& ranks) {
    std::vector<std::vector<int>> pairs;
    if (!message.by_distance) return pairs = {pair_of(ranks, message.from, message.to)};
    const auto size = static_cast<int>(ranks.size());
    for (int from = 0; from < size; ++from) {
      pairs.push_back(pair_of(ranks, from, (from + message.to - message.from + size) % size));
    }
    return pairs;
  };
  const std::vector<int> ends =
      message.by_distance ? group.ranks : pair_of(group.ranks, message.from, message.to);
  groups.push_back(std::make_unique<const Group>(Group{
      .ranks = group.ranks,
      .message = message,
      .layout = group.layout,
      .stage_ranks = stage_ranks,
      .path = PathOf(ends),
      .shape = nccl ? ShapeOf(ends, cluster->gpus_per_node()) : GroupShape(),
      .communicator = nccl ? ShapeOf(group.ranks, cluster->gpus_per_node()) : GroupShape(),
      .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, group.ranks, group.layout,
                                                            stage_ranks, loads, pairs_of)
                           : nullptr}));
  return *groups.back();
}

// In flow and message mode, collisions happen on the links themselves.
topology::CommunicationPath PricedMachine::PathOf(const std::vector<int>& ranks) const {
  return cluster->PathOf(ranks, analytic ? topology::Cluster::Collisions::kExpected
                                         : topology::Cluster::Collisions::kIgnored);
}

const CollectivePrice* PricedMachine::Known(const program::Collective& collective,
                                            const Group& group) const {
  const auto found = collectives.find({collective.kind, collective.bytes, &group});
  return found == collectives.end() ? nullptr : &found->second;
}

void PricedMachine::Remember(const program::Collective& collective, const Group& group,
                             const CollectivePrice& price) {
  constexpr std::size_t kMostCollectives = 16'384;
  if (collectives.size() == kMostCollectives) collectives.clear();
  collectives.try_emplace({collective.kind, collective.bytes, &group}, price);
}

double PricedMachine::SlowestOf(std::int64_t devices) {
  if (devices != slowest_of) {
    slowest_of = devices;
    slowest = SlowestDevice(calibration->kernels->variation, devices);
  }
  return slowest;
}

}  // namespace stepcast::cost
