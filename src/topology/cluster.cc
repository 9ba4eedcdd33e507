#include "src/topology/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/topology/graph.h"
#include "src/topology/rings.h"

namespace stepcast::topology {
namespace {

// The members of a group in one node.
struct NodeMembers {
  int node = 0;
  std::size_t first = 0;  // where the node first appears in the group
  std::vector<int> gpus;  // ascending
};

Bandwidth Rounded(double bytes_per_second) {
  return Bandwidth::BytesPerSecond(std::llround(bytes_per_second));
}

}  // namespace

class Cluster::Implementation {
 public:
  using Collisions = Cluster::Collisions;
  virtual ~Implementation() = default;
  virtual int devices() const = 0;
  virtual int nodes() const = 0;
  virtual int gpus_per_node() const = 0;
  virtual const std::string& gpu() const = 0;
  virtual Bytes device_memory() const = 0;
  virtual const NodeType* node_type() const { return nullptr; }
  virtual const Fabric* fabric() const { return nullptr; }
  virtual const FlatCluster* flat_cluster() const { return nullptr; }
  virtual CommunicationPath PathOf(std::span<const int> ranks, Collisions collisions) const = 0;
};

namespace {

class Flat final : public Cluster::Implementation {
 public:
  explicit Flat(FlatCluster description) : description_(std::move(description)) {}

  int devices() const override { return description_.devices; }
  int nodes() const override { return description_.devices; }
  int gpus_per_node() const override { return 1; }
  const std::string& gpu() const override { return description_.gpu; }
  Bytes device_memory() const override { return description_.memory; }
  const FlatCluster* flat_cluster() const override { return &description_; }

  CommunicationPath PathOf(std::span<const int> ranks, Collisions /*collisions*/) const override {
    CommunicationPath path;
    path.ranks = static_cast<int>(ranks.size());
    path.nodes = path.ranks;
    path.flat = true;
    if (path.ranks > 1 && description_.link) {
      path.inter_latency = description_.link->latency;
      path.inter_bandwidth = description_.link->bandwidth;
      path.ring_bandwidth = description_.link->bandwidth;
    }
    return path;
  }

 private:
  FlatCluster description_;
};

class Nodes final : public Cluster::Implementation {
 public:
  Nodes(NodeType node_type, std::optional<Fabric> fabric, int nodes,
        std::optional<int> gpus_per_node)
      : node_type_(std::move(node_type)),
        fabric_(std::move(fabric)),
        nodes_(nodes),
        gpus_per_node_(gpus_per_node.value_or(node_type_.Count(DeviceKind::kGpu))),
        routes_(node_type_) {
    STEPCAST_CHECK(nodes_ >= 1 && gpus_per_node_ >= 1, "a cluster has GPUs");
    STEPCAST_CHECK(gpus_per_node_ <= node_type_.Count(DeviceKind::kGpu), "ranks have GPUs");
    STEPCAST_CHECK(nodes_ == 1 || fabric_.has_value(), "several nodes must have a fabric");
  }

  int devices() const override { return nodes_ * gpus_per_node_; }
  int nodes() const override { return nodes_; }
  int gpus_per_node() const override { return gpus_per_node_; }
  const std::string& gpu() const override { return node_type_.gpu; }
  Bytes device_memory() const override { return node_type_.gpu_memory; }
  const NodeType* node_type() const override { return &node_type_; }
  const Fabric* fabric() const override { return fabric_ ? &*fabric_ : nullptr; }

  CommunicationPath PathOf(std::span<const int> ranks, Collisions collisions) const override;

 private:
  // One network hop of every channel, from one node to the next.
  struct Hop {
    Time latency;     // GPU to GPU, the worst channel
    double rate = 0;  // of one channel, in bytes per second, on the leaves' uplinks
  };

  std::vector<NodeMembers> MembersByNode(std::span<const int> ranks) const;
  // Uses a cache, which makes repeated calls for similar groups cheap: nodes are copies, so only
  // the set of GPUs matters. References stay valid.
  const NodeRings& RingsOf(const std::vector<int>& gpus) const;
  const NodeTraffic& TrafficOf(const std::vector<int>& gpus, int channels) const;
  Hop HopBetween(const NodeTraffic& from, const NodeTraffic& to, bool same_unit) const;
  // The factor by which collisions of hashed connections slow the group's ring, which has
  // `channels` channels.
  double CollisionsOf(const std::vector<NodeMembers>& members, std::size_t channels) const;
  int UnitOf(int node) const {
    return fabric_->kind == FabricKind::kOneSwitch ? 0 : node / fabric_->nodes_per_unit;
  }

  const NodeType node_type_;
  const std::optional<Fabric> fabric_;
  const int nodes_;
  const int gpus_per_node_;
  const NodeRoutes routes_;

  mutable std::mutex mutex_;
  mutable std::map<std::vector<int>, NodeRings> rings_;
  mutable std::map<std::pair<std::vector<int>, int>, NodeTraffic> traffic_;
  mutable std::map<std::map<std::int64_t, std::int64_t>, double> collisions_;
};

std::vector<NodeMembers> Nodes::MembersByNode(std::span<const int> ranks) const {
  // (node, GPU, position in the group)
  std::vector<std::tuple<int, int, std::size_t>> places;
  places.reserve(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    STEPCAST_CHECK(ranks[i] >= 0 && ranks[i] < devices(), "a rank must be in the cluster");
    places.emplace_back(ranks[i] / gpus_per_node(), ranks[i] % gpus_per_node(), i);
  }
  std::sort(places.begin(), places.end());
  std::vector<NodeMembers> members;
  for (const auto& [node, gpu, position] : places) {
    if (members.empty() || members.back().node != node) {
      members.push_back({node, position, {}});
    }
    NodeMembers& here = members.back();
    STEPCAST_CHECK(here.gpus.empty() || here.gpus.back() != gpu,
                   "the ranks of a group must be "
                   "distinct");
    here.gpus.push_back(gpu);
    here.first = std::min(here.first, position);
  }
  std::sort(members.begin(), members.end(),
            [](const NodeMembers& a, const NodeMembers& b) { return a.first < b.first; });
  return members;
}

const NodeRings& Nodes::RingsOf(const std::vector<int>& gpus) const {
  const std::lock_guard lock(mutex_);
  auto found = rings_.find(gpus);
  if (found == rings_.end()) {
    found = rings_.emplace(gpus, BuildNodeRings(routes_, gpus)).first;
  }
  return found->second;
}

const NodeTraffic& Nodes::TrafficOf(const std::vector<int>& gpus, int channels) const {
  const NodeRings& rings = RingsOf(gpus);
  const std::lock_guard lock(mutex_);
  const std::pair key(gpus, channels);
  auto found = traffic_.find(key);
  if (found == traffic_.end()) {
    found =
        traffic_
            .emplace(key, BuildNodeTraffic(routes_, gpus, rings, fabric_->link.bandwidth, channels))
            .first;
  }
  return found->second;
}

Nodes::Hop Nodes::HopBetween(const NodeTraffic& from, const NodeTraffic& to, bool same_unit) const {
  const Fabric& fabric = *fabric_;
  const Time below = 2 * fabric.link.latency;
  const Time above = below + 2 * fabric.uplink.latency;
  Hop hop;
  // [leaf] channels that go up from, and come down to, each leaf of a unit.
  std::map<int, std::pair<int, int>> climbing;
  for (std::size_t c = 0; c < from.rails.size(); ++c) {
    const int leaf_from = LeafOf(fabric, 0, from.rails[c]);
    const int leaf_to = LeafOf(fabric, 0, to.rails[c]);
    const bool climbs = !same_unit || leaf_from != leaf_to;
    hop.latency = std::max(hop.latency,
                           from.exit_latency[c] + (climbs ? above : below) + to.entry_latency[c]);
    if (climbs) {
      ++climbing[leaf_from].first;
      ++climbing[leaf_to].second;
    }
  }
  hop.rate = std::numeric_limits<double>::infinity();
  for (const auto& [leaf, counts] : climbing) {
    const double share = static_cast<double>(fabric.uplink.bandwidth.bytes_per_second()) *
                         fabric.spines / fabric.nodes_per_unit;
    hop.rate = std::min(hop.rate, share / std::max(counts.first, counts.second));
  }
  return hop;
}

// A ring leaves a unit if its next node is in another unit. Nodes of the unit outside the group are
// assumed to leave it as often as the group's own nodes: they belong to sibling groups whose rings
// run at the same time.
double Nodes::CollisionsOf(const std::vector<NodeMembers>& members, std::size_t channels) const {
  const Fabric& fabric = *fabric_;
  struct Unit {
    std::int64_t members = 0, leaving = 0;
  };
  std::map<int, Unit> units;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int unit = UnitOf(members[i].node);
    ++units[unit].members;
    if (UnitOf(members[(i + 1) % members.size()].node) != unit) ++units[unit].leaving;
  }
  const bool rails = fabric.kind == FabricKind::kRailOptimised;
  const std::int64_t nics = node_type_.Count(DeviceKind::kNic);
  const std::int64_t leaves = rails ? std::min(fabric.rails, static_cast<int>(channels)) : 1;
  const std::int64_t nics_of_a_leaf = rails ? (nics + fabric.rails - 1) / fabric.rails : nics;
  std::map<std::int64_t, std::int64_t> leaves_by_connections;
  for (const auto& [number, unit] : units) {
    if (unit.leaving == 0) continue;
    const std::int64_t nodes =
        std::min(fabric.nodes_per_unit, nodes_ - number * fabric.nodes_per_unit);
    const std::int64_t leaving = (nodes * unit.leaving + unit.members - 1) / unit.members;
    // Channels come down to the next unit from the spines that they went up to, all together.
    leaves_by_connections[leaving * nics_of_a_leaf * fabric.connections] += leaves;
  }
  if (leaves_by_connections.empty()) return 1;
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = collisions_.try_emplace(leaves_by_connections);
  if (is_new) {
    std::vector<HashedLeaves> hashed;
    for (const auto& [connections, count] : leaves_by_connections) {
      hashed.push_back({.leaves = count, .connections = connections});
    }
    known->second = ExpectedSlowdown(
        hashed, fabric.spines,
        static_cast<double>(fabric.link.bandwidth.bytes_per_second()) / fabric.connections /
            static_cast<double>(fabric.uplink.bandwidth.bytes_per_second()));
  }
  return known->second;
}

CommunicationPath Nodes::PathOf(std::span<const int> ranks, Collisions collisions) const {
  CommunicationPath path;
  path.ranks = static_cast<int>(ranks.size());
  const std::vector<NodeMembers> members = MembersByNode(ranks);
  path.nodes = static_cast<int>(members.size());
  path.ranks_per_node = 0;

  double intra = std::numeric_limits<double>::infinity();
  path.intra_is_nvlink = true;
  bool has_intra = false;
  std::size_t channels = 1;
  const std::vector<int>* seen = nullptr;
  for (const NodeMembers& node : members) {
    if (seen != nullptr && node.gpus == *seen) continue;  // most nodes equal the previous node
    seen = &node.gpus;
    path.ranks_per_node = std::max(path.ranks_per_node, static_cast<int>(node.gpus.size()));
    if (path.nodes > 1) channels = std::max(channels, RailsOf(routes_, node.gpus).size());
    if (node.gpus.size() < 2) continue;
    const NodeRings& rings = RingsOf(node.gpus);
    has_intra = true;
    path.intra_latency = std::max(path.intra_latency, rings.latency);
    path.intra_is_nvlink = path.intra_is_nvlink && rings.nvlink;
    intra = std::min(intra, static_cast<double>(rings.bandwidth.bytes_per_second()));
  }
  path.intra_is_nvlink = path.intra_is_nvlink && has_intra;

  if (path.nodes > 1) {
    std::vector<const NodeTraffic*> traffic;
    traffic.reserve(members.size());
    const int channel_count = static_cast<int>(channels);
    for (std::size_t i = 0; i < members.size(); ++i) {
      traffic.push_back(i > 0 && members[i].gpus == members[i - 1].gpus
                            ? traffic.back()
                            : &TrafficOf(members[i].gpus, channel_count));
    }
    double inter = std::numeric_limits<double>::infinity();
    std::map<std::tuple<const NodeTraffic*, const NodeTraffic*, bool>, Hop> hops;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t next = (i + 1) % members.size();
      const double count = static_cast<double>(channels);
      intra = std::min(intra, traffic[i]->intra_rate * count);
      inter = std::min(inter, traffic[i]->inter_rate * count);
      const bool same_unit = UnitOf(members[i].node) == UnitOf(members[next].node);
      const auto [hop, is_new] = hops.try_emplace({traffic[i], traffic[next], same_unit});
      if (is_new) hop->second = HopBetween(*traffic[i], *traffic[next], same_unit);
      inter = std::min(inter, hop->second.rate * count);
      path.inter_latency = std::max(path.inter_latency, hop->second.latency);
    }
    if (collisions == Collisions::kExpected && fabric_->kind != FabricKind::kOneSwitch &&
        fabric_->routing.choice == RouteChoice::kEcmp) {
      const double slowdown = CollisionsOf(members, channels);
      if (slowdown > 1) {
        inter = std::min(inter, static_cast<double>(fabric_->link.bandwidth.bytes_per_second()) *
                                    static_cast<double>(channels) / slowdown);
      }
    }
    path.inter_bandwidth = Rounded(inter);
    path.ring_bandwidth = path.inter_bandwidth;
  }
  if (has_intra) {
    path.intra_bandwidth = Rounded(intra);
    path.ring_bandwidth = path.nodes > 1 ? std::min(path.inter_bandwidth, path.intra_bandwidth)
                                         : path.intra_bandwidth;
  }
  return path;
}

}  // namespace

Cluster::Cluster(NodeType node_type, std::optional<Fabric> fabric, int nodes,
                 std::optional<int> gpus_per_node)
    : implementation_(
          std::make_unique<Nodes>(std::move(node_type), std::move(fabric), nodes, gpus_per_node)) {}

Cluster::Cluster(FlatCluster flat) : implementation_(std::make_unique<Flat>(std::move(flat))) {
  STEPCAST_CHECK(devices() >= 1, "a cluster has devices");
}

Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

int Cluster::devices() const { return implementation_->devices(); }
int Cluster::nodes() const { return implementation_->nodes(); }
int Cluster::gpus_per_node() const { return implementation_->gpus_per_node(); }
bool Cluster::flat() const { return flat_cluster() != nullptr; }
const std::string& Cluster::gpu() const { return implementation_->gpu(); }
Bytes Cluster::device_memory() const { return implementation_->device_memory(); }
const NodeType* Cluster::node_type() const { return implementation_->node_type(); }
double Cluster::host_speed() const { return node_type() == nullptr ? 1 : node_type()->host_speed; }
const Fabric* Cluster::fabric() const { return implementation_->fabric(); }
const FlatCluster* Cluster::flat_cluster() const { return implementation_->flat_cluster(); }

CommunicationPath Cluster::PathOf(std::span<const int> ranks, Collisions collisions) const {
  STEPCAST_CHECK(!ranks.empty(), "a group has ranks");
  return implementation_->PathOf(ranks, collisions);
}

}  // namespace stepcast::topology
