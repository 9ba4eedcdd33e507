#include "src/topology/link_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include "boost/graph/adjacency_list.hpp"
#include "src/base/check.h"
#include "src/topology/graph.h"
#include "src/topology/rings.h"
#include "src/topology/routes.h"

namespace stepcast::topology {
namespace {

// The fraction of the buffer that one hop of the ring transfers.
std::optional<double> RingPart(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  const std::string_view name = Name(kind);
  if (name == "all_reduce") return 2 * others;
  if (name == "reduce_scatter" || name == "all_gather") return others;
  if (name == "broadcast" || name == "reduce") return 1;
  return std::nullopt;
}

std::vector<LinkLoad> FlatLoads(const FlatCluster& flat, double bytes) {
  LinkLoad up{.from = Name(Device{DeviceKind::kGpu, 0, 0}),
              .to = Name(Device{DeviceKind::kLeafSwitch, -1, 0}),
              .from_kind = DeviceKind::kGpu,
              .to_kind = DeviceKind::kLeafSwitch,
              .kind = LinkKind::kNetwork,
              .count = 1,
              .bandwidth = flat.link->bandwidth,
              .bytes = bytes};
  LinkLoad down = up;
  std::swap(down.from, down.to);
  std::swap(down.from_kind, down.to_kind);
  return {up, down};
}

class NodeLoads {
 public:
  NodeLoads(const Cluster& cluster, double bytes)
      : node_type_(*cluster.node_type()),
        fabric_(cluster.nodes() > 1 ? cluster.fabric() : nullptr),
        nodes_(cluster.nodes()),
        bytes_(bytes),
        routes_(node_type_) {}

  std::vector<LinkLoad> Run() {
    std::vector<int> gpus(static_cast<std::size_t>(node_type_.Count(DeviceKind::kGpu)));
    std::iota(gpus.begin(), gpus.end(), 0);
    const NodeRings rings = BuildNodeRings(routes_, gpus);
    if (fabric_ == nullptr) {
      AddNode(rings.loads, std::max<std::size_t>(rings.cycles.size(), 1));
      return std::move(loads_);
    }
    const std::size_t channels = RailsOf(routes_, gpus).size();
    const NodeTraffic traffic =
        BuildNodeTraffic(routes_, gpus, rings, fabric_->link.bandwidth, static_cast<int>(channels));
    AddNode(traffic.loads, channels);
    AddFabric(traffic.rails);
    return std::move(loads_);
  }

 private:
  void AddNode(const std::vector<double>& crossing, std::size_t channels) {
    const Graph graph = BuildNodeGraph(node_type_);
    std::vector<LinkLoad> by_id(crossing.size());
    for (const std::vector<Link>& leaving : graph.links) {
      for (const Link& link : leaving) {
        const auto id = static_cast<std::size_t>(link.id);
        if (id >= by_id.size()) continue;
        by_id[id] = Load(graph.devices[link.from], graph.devices[link.to], link.kind, link.count,
                         link.bandwidth, bytes_ * crossing[id] / static_cast<double>(channels));
      }
    }
    for (LinkLoad& load : by_id) loads_.push_back(std::move(load));
  }

  static LinkLoad Load(const Device& from, const Device& to, LinkKind kind, int count,
                       Bandwidth bandwidth, double bytes) {
    return {.from = Name(from),
            .to = Name(to),
            .from_kind = from.kind,
            .to_kind = to.kind,
            .kind = kind,
            .count = count,
            .bandwidth = bandwidth,
            .bytes = bytes};
  }

  void AddFabric(const std::vector<int>& rails) {
    const double channel = bytes_ / static_cast<double>(rails.size());
    std::vector<double> ports(static_cast<std::size_t>(node_type_.Count(DeviceKind::kNic)));
    for (const int nic : rails) ports[static_cast<std::size_t>(nic)] += channel;
    for (std::size_t nic = 0; nic < ports.size(); ++nic) {
      const int index = static_cast<int>(nic);
      const Device port{DeviceKind::kNic, 0, index};
      const Device leaf{DeviceKind::kLeafSwitch, -1, LeafOf(*fabric_, 0, index)};
      for (const bool up : {true, false}) {
        loads_.push_back(Load(up ? port : leaf, up ? leaf : port, LinkKind::kNetwork, 1,
                              fabric_->link.bandwidth, ports[nic]));
      }
    }
    if (fabric_->kind == FabricKind::kOneSwitch) return;
    // Channels that go up from each leaf, and come down to it, towards the next node. The last
    // node's next one is the first.
    const int leaves = LeafCount(*fabric_, nodes_);
    std::vector<std::pair<double, double>> climbing(static_cast<std::size_t>(leaves));
    for (int node = 0; node < nodes_; ++node) {
      for (const int nic : rails) {
        const int from = LeafOf(*fabric_, node, nic);
        const int to = LeafOf(*fabric_, (node + 1) % nodes_, nic);
        if (from == to) continue;
        climbing[static_cast<std::size_t>(from)].first += channel / fabric_->spines;
        climbing[static_cast<std::size_t>(to)].second += channel / fabric_->spines;
      }
    }
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int spine = 0; spine < fabric_->spines; ++spine) {
        const Device below{DeviceKind::kLeafSwitch, -1, leaf};
        const Device above{DeviceKind::kSpineSwitch, -1, spine};
        const auto& [up, down] = climbing[static_cast<std::size_t>(leaf)];
        loads_.push_back(Load(below, above, LinkKind::kNetwork, 1, fabric_->uplink.bandwidth, up));
        loads_.push_back(
            Load(above, below, LinkKind::kNetwork, 1, fabric_->uplink.bandwidth, down));
      }
    }
  }

  const NodeType& node_type_;
  const Fabric* fabric_;  // null: one node
  const int nodes_;
  const double bytes_;  // that a hop of the rings carries
  const NodeRoutes routes_;
  std::vector<LinkLoad> loads_;
};

}  // namespace

std::optional<std::vector<LinkLoad>> RingLoads(const Cluster& cluster, CollectiveKind kind,
                                               Bytes bytes) {
  const std::optional<double> part = RingPart(kind, cluster.devices());
  if (!part || cluster.devices() < 2) return std::nullopt;
  const double carried = *part * static_cast<double>(bytes.count());
  if (const FlatCluster* flat = cluster.flat_cluster()) {
    if (!flat->link) return std::nullopt;
    return FlatLoads(*flat, carried);
  }
  return NodeLoads(cluster, carried).Run();
}

namespace {

// The largest connections x uplinks for which probabilities are exact.
constexpr std::int64_t kMostExact = 4096;

double LogPoisson(double mean, std::int64_t number) {
  const auto n = static_cast<double>(number);
  return n * std::log(mean) - mean - std::lgamma(n + 1);
}

// The probability that more than `most` of `connections` take one given uplink of `uplinks`.
double MoreThan(std::int64_t most, std::int64_t connections, std::int64_t uplinks) {
  if (uplinks == 1) return 1;
  const auto n = static_cast<double>(connections);
  const double log_p = -std::log(static_cast<double>(uplinks));
  const double log_q = std::log1p(-1 / static_cast<double>(uplinks));
  double sum = 0;
  for (std::int64_t k = most + 1; k <= connections; ++k) {
    const auto met = static_cast<double>(k);
    const double term = std::exp(std::lgamma(n + 1) - std::lgamma(met + 1) -
                                 std::lgamma(n - met + 1) + met * log_p + (n - met) * log_q);
    sum += term;
    if (met > n / static_cast<double>(uplinks) && term < 1e-15 * sum) break;
  }
  return std::min(sum, 1.0);
}

// The probability that no uplink of a leaf has more than `most` of its connections. If connections
// arrived as a Poisson process with mean connections / uplinks per uplink, the counts would be
// independent. Given their total, they are distributed as by the hash. So the result is P(total,
// and no count above `most`) / P(total).
double NoneAbove(std::int64_t most, std::int64_t connections, std::int64_t uplinks) {
  if (most >= connections) return 1;
  if (connections * uplinks > kMostExact) {
    return std::pow(1 - MoreThan(most, connections, uplinks), static_cast<double>(uplinks));
  }
  const double mean = static_cast<double>(connections) / static_cast<double>(uplinks);
  std::vector<double> own;  // of one uplink
  for (std::int64_t n = 0; n <= most; ++n) own.push_back(std::exp(LogPoisson(mean, n)));
  const auto all = static_cast<std::size_t>(connections);
  std::vector<double> together(all + 1), next(all + 1);
  together[0] = 1;
  for (std::int64_t uplink = 0; uplink < uplinks; ++uplink) {
    for (std::size_t sum = 0; sum <= all; ++sum) {
      double probability = 0;
      for (std::size_t n = 0; n < own.size() && n <= sum; ++n) {
        probability += own[n] * together[sum - n];
      }
      next[sum] = probability;
    }
    std::swap(together, next);
  }
  const double as_many = LogPoisson(static_cast<double>(connections), connections);
  return std::min(1.0, together[all] / std::exp(as_many));
}

}  // namespace

double ExpectedSlowdown(std::span<const HashedLeaves> leaves, std::int64_t uplinks, double part) {
  STEPCAST_CHECK(uplinks >= 1 && part > 0, "leaves have uplinks");
  std::int64_t least = 0, largest = 0;
  for (const HashedLeaves& some : leaves) {
    largest = std::max(largest, some.connections);
    least = std::max(least, (some.connections + uplinks - 1) / uplinks);
  }
  const auto slowdown = [&](std::int64_t met) {
    return std::max(1.0, static_cast<double>(met) * part);
  };
  double expected = slowdown(least);
  for (std::int64_t met = least; met < largest; ++met) {
    double none = 1;  // the probability that no uplink has more connections
    for (const HashedLeaves& some : leaves) {
      none *= std::pow(NoneAbove(met, some.connections, uplinks), static_cast<double>(some.leaves));
    }
    const double worse = 1 - none;
    expected += (slowdown(met + 1) - slowdown(met)) * worse;
    if (worse < 1e-12) break;
  }
  return expected;
}

}  // namespace stepcast::topology
