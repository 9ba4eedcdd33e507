#include "src/network/group_steps.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/check.h"
#include "src/collective/collnet.h"
#include "src/collective/node_aware.h"
#include "src/collective/nvls.h"
#include "src/collective/pairwise.h"
#include "src/collective/pat.h"
#include "src/collective/ring.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"
#include "src/topology/rings.h"

namespace stepcast::network {
namespace {

constexpr int kMostChainsALink = 8;
constexpr std::int64_t kMostLooks = 100'000;  // of one search; every step looks at all GPUs

}  // namespace

DirectChains::DirectChains(const topology::NodeRoutes& routes, std::span<const int> gpus)
    : size_(gpus.size()), links_(size_ * size_), used_(size_ * size_) {
  for (std::size_t a = 0; a < size_; ++a) {
    for (std::size_t b = 0; b < size_; ++b) {
      if (a != b) links_[Between(a, b)] = routes.DirectNvLinks(gpus[a], gpus[b]);
      joined_ = joined_ || links_[Between(a, b)] > 0;
    }
  }
}

std::vector<std::size_t> DirectChains::Lay(std::span<const std::size_t> first,
                                           std::span<const std::size_t> last, bool both_ways) {
  if (!joined_) return {};
  may_end_.assign(size_, false);
  for (const std::size_t position : last) may_end_[position] = true;
  for (chains_a_link_ = 1; chains_a_link_ <= kMostChainsALink; ++chains_a_link_) {
    looks_left_ = kMostLooks;
    for (const std::size_t start : first) {
      visited_.assign(size_, false);
      visited_[start] = true;
      chain_.assign(1, start);
      if (!Extend()) continue;
      for (std::size_t i = 0; i + 1 < size_; ++i) {
        ++used_[Between(chain_[i], chain_[i + 1])];
        if (both_ways) ++used_[Between(chain_[i + 1], chain_[i])];
      }
      return chain_;
    }
  }
  return {};
}

// Depth first.
bool DirectChains::Extend() {
  const std::size_t end = chain_.back();
  if (chain_.size() == size_) return may_end_[end];
  for (std::size_t i = 1; i < size_; ++i) {
    const std::size_t next = (end + i) % size_;
    if (--looks_left_ < 0) return false;
    if (visited_[next] ||
        used_[Between(end, next)] >= chains_a_link_ * links_[Between(end, next)]) {
      continue;
    }
    visited_[next] = true;
    chain_.push_back(next);
    if (Extend()) return true;
    chain_.pop_back();
    visited_[next] = false;
  }
  return false;
}

namespace {

using collective::kNobody;
using collective::Tree;

// Largest message if loops fill a pipeline: NCCL's chunk, half a MiB (src/include/device.h of
// NVIDIA/nccl: buffers of 4 MiB in 8 slots).
constexpr Bytes kChunk = KiB(512);

}  // namespace

GroupSteps::GroupSteps(const ClusterNetwork& network) : network_(network) {
  for (const topology::NodesOfType& alike : network.nodes) {
    gpus_per_node_ = alike.gpus_with_ranks();
    routes_.push_back(std::make_unique<const topology::NodeRoutes>(*alike.type));
  }
}

const topology::NodeRoutes* GroupSteps::RoutesOf(int node) const {
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    node -= network_.nodes[i].nodes;
    if (node < 0) return routes_[i].get();
  }
  return nullptr;
}

GroupSteps::Members GroupSteps::MembersOf(std::span<const int> ranks) const {
  Members members;
  std::map<int, std::size_t> index_of;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int number = ranks[i] / gpus_per_node_;
    const auto [found, added] = index_of.emplace(number, members.nodes.size());
    if (added) {
      members.nodes.emplace_back();
      members.gpus.emplace_back();
      members.routes.push_back(RoutesOf(number));
      members.switches.push_back(flat() ? -1
                                        : network_.node_switches[static_cast<std::size_t>(number)]);
    }
    members.nodes[found->second].push_back(static_cast<int>(i));
    members.gpus[found->second].push_back(ranks[i] % gpus_per_node_);
  }
  for (const std::vector<int>& node : members.nodes) {
    members.most = std::max(members.most, node.size());
    members.even = members.even && node.size() == members.nodes.front().size();
  }
  return members;
}

int GroupSteps::RailsOf(const Members& members) const {
  if (flat() || members.nodes.size() == 1) return 1;
  std::size_t rails = members.most;
  for (std::size_t k = 0; k < members.gpus.size(); ++k) {
    std::vector<int> ascending = members.gpus[k];
    std::sort(ascending.begin(), ascending.end());
    rails = std::min(
        {rails, ascending.size(), topology::RailsOf(*members.routes[k], ascending).size()});
  }
  return static_cast<int>(std::max<std::size_t>(1, rails));
}

std::vector<std::size_t> GroupSteps::NearRail(const Members& members, std::size_t node,
                                              std::size_t rail, std::size_t rails) {
  const std::vector<int>& gpus = members.gpus[node];
  const topology::NodeRoutes& routes = *members.routes[node];
  std::vector<int> ascending = gpus;
  std::sort(ascending.begin(), ascending.end());
  const std::vector<int> nics = topology::RailsOf(routes, ascending);
  const int nic = nics[rail * nics.size() / rails];
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::vector<int>& own = routes.NicsOf(gpus[i]);
    if (std::find(own.begin(), own.end(), nic) != own.end()) near.push_back(i);
  }
  return near;
}

std::vector<std::vector<int>> GroupSteps::RingOrders(const Members& members) const {
  std::vector<std::vector<int>> orders;
  const std::size_t nodes = members.nodes.size();
  if (nodes == 1 && !flat()) {
    std::vector<int> ascending = members.gpus.front();
    std::sort(ascending.begin(), ascending.end());
    for (const topology::Cycle& cycle :
         topology::BuildNodeRings(*members.routes.front(), ascending).cycles) {
      std::vector<int>& order = orders.emplace_back();
      for (const int gpu : cycle.gpus) {
        const auto at = std::find(members.gpus.front().begin(), members.gpus.front().end(), gpu);
        order.push_back(
            members.nodes.front()[static_cast<std::size_t>(at - members.gpus.front().begin())]);
      }
    }
    return orders;
  }
  const auto rails = static_cast<std::size_t>(RailsOf(members));
  std::vector<DirectChains> direct;
  for (std::size_t k = 0; k < nodes && !flat(); ++k) {
    direct.emplace_back(*members.routes[k], members.gpus[k]);
  }
  for (std::size_t channel = 0; channel < rails; ++channel) {
    // The rail from node k to the next. With more than two rails, no rail is used twice in a row.
    const auto rail_from = [&](std::size_t k) {
      const std::size_t shift = nodes % 2 == 1 && k + 1 == nodes ? 2 : k % 2;
      return (channel + shift) % rails;
    };
    std::vector<int>& order = orders.emplace_back();
    for (std::size_t k = 0; k < nodes; ++k) {
      const std::vector<int>& node = members.nodes[k];
      if (!direct.empty()) {
        const std::vector<std::size_t> chain =
            direct[k].Lay(NearRail(members, k, rail_from((k + nodes - 1) % nodes), rails),
                          NearRail(members, k, rail_from(k), rails), /*both_ways=*/false);
        for (const std::size_t position : chain) order.push_back(node[position]);
        if (!chain.empty()) continue;
      }
      const auto member_at = [&](std::size_t rail) { return rail * node.size() / rails; };
      const std::size_t entry = member_at(rail_from((k + nodes - 1) % nodes));
      std::size_t exit = member_at(rail_from(k));
      if (exit == entry) exit = (entry + 1) % node.size();
      order.push_back(node[entry]);
      for (std::size_t i = 1; i < node.size(); ++i) {
        const std::size_t member = (entry + i) % node.size();
        if (member != exit) order.push_back(node[member]);
      }
      if (node.size() > 1) order.push_back(node[exit]);
    }
  }
  return orders;
}

std::vector<Tree> GroupSteps::Trees(const Members& members) const {
  std::size_t ranks = 0;
  for (const std::vector<int>& node : members.nodes) ranks += node.size();
  std::vector<Tree> trees;
  const auto hang = [](Tree& tree, int below, int above) {
    tree[static_cast<std::size_t>(above)].children.push_back(below);
    tree[static_cast<std::size_t>(below)].parent = above;
  };
  if (members.nodes.size() == 1 && !flat()) {
    const std::vector<std::vector<int>> rings = RingOrders(members);
    if (rings.size() > 1) {  // over direct NVLinks: each is a chain where it is cut open
      for (const std::vector<int>& ring : rings) {
        Tree& tree = trees.emplace_back(ranks);
        for (std::size_t i = 1; i < ring.size(); ++i) hang(tree, ring[i], ring[i - 1]);
      }
      return trees;
    }
  }
  const auto over_nodes = collective::DoubleBinaryTree(static_cast<int>(members.nodes.size()));
  const auto rails = static_cast<std::size_t>(RailsOf(members));
  std::vector<DirectChains> direct;
  for (std::size_t k = 0; k < members.nodes.size() && !flat(); ++k) {
    direct.emplace_back(*members.routes[k], members.gpus[k]);
  }
  for (std::size_t rail = 0; rail < rails; ++rail) {
    for (const Tree& between : over_nodes) {
      Tree tree(ranks);
      const auto head_of = [&](int node) {
        const std::vector<int>& group = members.nodes[static_cast<std::size_t>(node)];
        return group[rail * group.size() / rails];
      };
      for (std::size_t k = 0; k < members.nodes.size(); ++k) {
        const std::vector<int>& node = members.nodes[k];
        const std::size_t first = rail * node.size() / rails;
        collective::TreeNode& head = tree[static_cast<std::size_t>(node[first])];
        if (between[k].parent != kNobody) head.parent = head_of(between[k].parent);
        for (const int child : between[k].children) head.children.push_back(head_of(child));
        std::vector<std::size_t> chain(node.size());
        std::iota(chain.begin(), chain.end(), std::size_t{0});
        if (!direct.empty()) {
          const std::size_t begin[] = {first};
          const std::vector<std::size_t> laid = direct[k].Lay(begin, chain, /*both_ways=*/true);
          if (!laid.empty()) chain = laid;
        }
        if (chain.front() != first) {
          std::rotate(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(first),
                      chain.end());
        }
        for (std::size_t i = 1; i < chain.size(); ++i) {
          hang(tree, node[chain[i]], node[chain[i - 1]]);
        }
      }
      trees.push_back(std::move(tree));
    }
  }
  return trees;
}

// A request for the steps of a group's collective.
struct GroupSteps::Request {
  std::span<const int> ranks;
  std::string_view algorithm;
  CollectiveKind kind;
  Bytes size;
  Members members;

  int nodes() const { return static_cast<int>(members.nodes.size()); }
  int per_node() const { return static_cast<int>(members.most); }
  bool all_reduce() const { return kind == CollectiveKind::kAllReduce; }
  bool all_gather_or_reduce_scatter() const {
    return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
  }
  // Whether one NVSwitch connects the members of each node.
  bool has_switches() const {
    return members.even && per_node() > 1 &&
           std::all_of(members.switches.begin(), members.switches.end(),
                       [](int place) { return place >= 0; });
  }

  bool nvls() const {
    return algorithm == "nvls" && nodes() == 1 && has_switches() &&
           (all_reduce() || all_gather_or_reduce_scatter());
  }
  bool nvls_tree() const {
    return algorithm == "nvls_tree" && nodes() > 1 && has_switches() && all_reduce();
  }
  bool collnet() const {
    return (algorithm.starts_with("collnet") || algorithm == "nvls") && nodes() > 1 &&
           members.even && all_reduce();
  }
  bool node_aware() const {
    return algorithm == "node_aware" && nodes() > 1 && per_node() > 1 && members.even;
  }
  bool pat() const {
    return algorithm == "pat" && per_node() == 1 && all_gather_or_reduce_scatter();
  }

  // Members counted by nodes: rank m g + h of the list is the h-th member of the m-th node.
  std::vector<int> PlacesByNode() const {
    std::vector<int> places;
    for (const std::vector<int>& node : members.nodes) {
      for (const int member : node) places.push_back(ranks[static_cast<std::size_t>(member)]);
    }
    return places;
  }
  // The same, followed by the nodes' switches.
  std::vector<int> PlacesAndSwitches() const {
    std::vector<int> places = PlacesByNode();
    places.insert(places.end(), members.switches.begin(), members.switches.end());
    return places;
  }
};

PlacedSteps GroupSteps::NvlsSteps(const Request& request) {
  const int per_node = request.per_node();
  const int loops = collective::LoopsFor(request.size, per_node, kChunk);
  PlacedSteps steps;
  steps.list = std::make_unique<collective::Nvls>(
      collective::Nvls::Options{request.kind, request.size, 1, per_node, {}, 1, loops});
  steps.places = request.PlacesAndSwitches();
  return steps;
}

PlacedSteps GroupSteps::NvlsTreeSteps(const Request& request) {
  const int nodes = request.nodes(), per_node = request.per_node();
  const auto trees = collective::DoubleBinaryTree(nodes);
  const int loops = collective::LoopsFor(request.size, 2 * per_node, kChunk);
  PlacedSteps steps;
  steps.list = std::make_unique<collective::Nvls>(collective::Nvls::Options{
      request.kind, request.size, nodes, per_node, {trees.begin(), trees.end()}, 2, loops});
  steps.places = request.PlacesAndSwitches();
  return steps;
}

PlacedSteps GroupSteps::CollNetSteps(const Request& request) const {
  const int per_node = request.per_node();
  const int loops = collective::LoopsFor(request.size, per_node, kChunk);
  PlacedSteps steps;
  steps.list = std::make_unique<collective::CollNet>(
      collective::CollNet::Options{request.size, request.nodes(), per_node, 1, loops});
  steps.places = request.PlacesByNode();
  steps.places.push_back(network_.fabric_switch);
  return steps;
}

// Every message is sent from its sender to its receiver, possibly through another rank of the
// sender's node.
PlacedSteps GroupSteps::MessageSteps(const Request& request) {
  const CollectiveKind kind = request.kind;
  const Bytes size = request.size;
  const auto count = static_cast<int>(request.ranks.size());
  const Bytes block = kind == CollectiveKind::kSendRecv ? size : Bytes(size.count() / count);
  const int loops = collective::LoopsFor(block, 1, kChunk);
  PlacedSteps steps;
  if (request.node_aware()) {
    steps.list = std::make_unique<collective::NodeAware>(
        collective::NodeAware::Options{size, request.nodes(), request.per_node(), 1, loops});
    steps.places = request.PlacesByNode();
  } else {
    steps.list = std::make_unique<collective::Pairwise>(
        collective::Pairwise::Options{kind, size, count, 0, 1, loops});
    steps.places.assign(request.ranks.begin(), request.ranks.end());
  }
  return steps;
}

PlacedSteps GroupSteps::Make(std::span<const int> ranks, std::string_view algorithm,
                             CollectiveKind kind, Bytes size) const {
  STEPCAST_CHECK(ranks.size() > 1, "a collective that sends messages must have at least two ranks");
  const Request request{ranks, algorithm, kind, size, MembersOf(ranks)};
  if (request.nvls()) return NvlsSteps(request);
  if (request.nvls_tree()) return NvlsTreeSteps(request);
  if (request.collnet() && network_.fabric_switch >= 0) return CollNetSteps(request);
  if (kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kScatter ||
      kind == CollectiveKind::kGather || kind == CollectiveKind::kSendRecv) {
    return MessageSteps(request);
  }
  PlacedSteps steps;
  steps.places.assign(ranks.begin(), ranks.end());
  if (request.pat()) {
    steps.list = std::make_unique<collective::Pat>(
        collective::Pat::Options{kind, size, static_cast<int>(ranks.size()), 1, 1});
  } else if (algorithm == "tree" && kind == CollectiveKind::kAllReduce) {
    std::vector<Tree> trees = Trees(request.members);
    const auto channels = static_cast<int>(trees.size());
    steps.list = std::make_unique<collective::TreeSteps>(collective::TreeSteps::Options{
        kind, size, std::move(trees), channels, collective::LoopsFor(size, channels, kChunk)});
  } else if (kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce) {
    std::vector<std::vector<int>> orders = RingOrders(request.members);
    for (std::vector<int>& order : orders) {
      std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    }
    const int loops = collective::LoopsFor(size, static_cast<int>(orders.size()), kChunk);
    steps.list = std::make_unique<collective::Chain>(
        collective::Chain::Options{kind, size, std::move(orders), 0, loops});
  } else {
    steps.list = std::make_unique<collective::Ring>(
        collective::Ring::Options{kind, size, RingOrders(request.members)});
  }
  return steps;
}

}  // namespace stepcast::network
