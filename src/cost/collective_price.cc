#include "src/cost/collective_price.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
TableTime TimeFromTable(const calibration::CollectiveTable& table, Bytes bytes) {
  const auto& points = table.points;
  STEPCAST_CHECK(!points.empty(), "a table must have points");
  const auto above = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const std::pair<Bytes, Time>& point, Bytes size) { return point.first < size; });
  if (above == points.end()) {
    const auto& [last_bytes, last_time] = points.back();
    return {ScaledTime(last_time, bytes.count(), last_bytes.count()), Provenance::kExtrapolated};
  }
  if (above->first == bytes) return {above->second, Provenance::kMeasured};
  if (above == points.begin()) return {above->second, Provenance::kExtrapolated};
  const auto& [low_bytes, low_time] = *std::prev(above);
  const auto& [high_bytes, high_time] = *above;
  // log2 is exact at powers of two, the usual sizes.
  const double part = std::log2(static_cast<double>(bytes.count()) / low_bytes.count()) /
                      std::log2(static_cast<double>(high_bytes.count()) / low_bytes.count());
  const double added = part * static_cast<double>((high_time - low_time).picoseconds());
  return {low_time + Picoseconds(static_cast<std::int64_t>(std::ceil(added))),
          Provenance::kInterpolated};
}

namespace {

using topology::CommunicationPath;

// The work of the links for one algorithm.
struct Demands {
  Fraction intra, inter;  // parts of the buffer
  std::int64_t intra_hops = 0, inter_hops = 0;
};

Demands DemandsOf(CollectiveKind kind, nccl::Algorithm algorithm, const CommunicationPath& path) {
  const std::int64_t ranks = path.ranks;
  const std::int64_t nodes = path.nodes;
  const std::int64_t local = path.ranks_per_node;
  const std::int64_t depth = std::bit_width(static_cast<std::uint64_t>(nodes)) - 1;
  const bool all_reduce = kind == CollectiveKind::kAllReduce;
  const std::int64_t rounds = all_reduce ? 2 : 1;
  switch (algorithm) {
    case nccl::Algorithm::kTree:
      return {{2 * (local - 1), local}, {2 * (nodes - 1), nodes}, 2 * (local - 1), 2 * depth};
    case nccl::Algorithm::kRing: {
      const bool whole = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
      const Fraction part = whole ? Fraction{1, 1} : Fraction{rounds * (ranks - 1), ranks};
      return {part, part, rounds * (ranks - nodes), rounds * (nodes - 1)};
    }
    case nccl::Algorithm::kNvls:
      return {{ranks - 1, ranks}, {nodes - 1, nodes}, 1, nodes > 1 ? 1 : 0};
    case nccl::Algorithm::kNvlsTree:
      return {{local - 1, local}, {2 * (nodes - 1), nodes}, 1, 2 * depth};
    case nccl::Algorithm::kCollNetDirect:
    case nccl::Algorithm::kCollNetChain:
      return {{local - 1, local}, {nodes - 1, nodes}, local > 1 ? 1 : 0, nodes > 1 ? 1 : 0};
    case nccl::Algorithm::kPat:
      return {{ranks - 1, ranks}, {ranks - 1, ranks}, 0, depth};
  }
  return {};
}

Demands ExchangeDemandsOf(CollectiveKind kind, const CommunicationPath& path) {
  const std::int64_t ranks = path.ranks;
  const std::int64_t local = path.ranks_per_node;
  const bool network = path.nodes > 1;
  Demands demands;
  demands.intra_hops = network ? 0 : 1;
  demands.inter_hops = network ? 1 : 0;
  switch (kind) {
    case CollectiveKind::kAllToAll:
      demands.intra = {local - 1, ranks};
      demands.inter = {local * (ranks - local), ranks};
      break;
    case CollectiveKind::kScatter:
    case CollectiveKind::kGather:
      demands.intra = {path.intra_is_nvlink ? local - 1 : 0, ranks};
      demands.inter = {ranks - local, ranks};
      break;
    default:
      demands.intra = demands.inter = {1, 1};
      break;
  }
  return demands;
}

LinkTimes TimesOf(const Demands& demands, Bytes bytes, const CommunicationPath& path) {
  LinkTimes times;
  if (path.ranks_per_node > 1 && path.intra_bandwidth > Bandwidth()) {
    times.intra = TimeOf(demands.intra, bytes, path.intra_bandwidth);
    times.latency += demands.intra_hops * path.intra_latency;
  }
  if (path.nodes > 1 && path.inter_bandwidth > Bandwidth()) {
    times.inter = TimeOf(demands.inter, bytes, path.inter_bandwidth);
    times.latency += demands.inter_hops * path.inter_latency;
  }
  return times;
}

}  // namespace

bool IsExchange(CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kScatter ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kSendRecv;
}

LinkTimes FastestLinkTimes(CollectiveKind kind, nccl::Algorithm algorithm, Bytes bytes,
                           const CommunicationPath& path) {
  if (path.ranks == 1) return {};
  return TimesOf(DemandsOf(kind, algorithm, path), bytes, path);
}

LinkTimes FastestExchangeTimes(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) {
  if (path.ranks == 1) return {};
  return TimesOf(ExchangeDemandsOf(kind, path), bytes, path);
}

namespace {

using scenario::CollectiveAlgorithm;
using topology::CommunicationPath;

// The bus bandwidth that a tree loses by pipelining (NVIDIA/nccl 2.30.7, src/graph/tuning.cc): 2 S
// / (0.92 B), as a fraction of S / B.
constexpr Fraction kTreeAllReduce = {.numerator = 200, .denominator = 92};

// The fraction of the buffer that the busiest rank of a ring sends.
Fraction RingPart(CollectiveKind kind, std::int64_t ranks) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {2 * (ranks - 1), ranks};
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      return {ranks - 1, ranks};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return {1, 1};
    default:
      STEPCAST_CHECK(false,
                     "the ring formula must not be used for an exchange, such as an "
                     "all-to-all");
  }
}

int RingRounds(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce ? 2 : 1; }

bool HasTree(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast ||
         kind == CollectiveKind::kReduce;
}

std::int64_t CeilLog2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }
std::int64_t FloorLog2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }

struct AlgorithmTime {
  Time latency;
  Time work;
  Time total() const { return latency + work; }
};

AlgorithmTime FlatRing(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) {
  return {.latency = RingRounds(kind) * std::int64_t{path.ranks - 1} * path.inter_latency,
          .work = TimeOf(RingPart(kind, path.ranks), bytes, path.ring_bandwidth)};
}

AlgorithmTime FlatTree(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) {
  const int passes = RingRounds(kind);
  return {.latency = passes * CeilLog2(path.ranks) * path.inter_latency,
          .work = TimeOf({passes, 1}, bytes, path.ring_bandwidth)};
}

// The bandwidths that software achieves on a path's links; zero for links that do not exist.
struct AchievedLinks {
  Bandwidth intra;
  Bandwidth inter;
  Bandwidth narrowest() const {
    if (intra == Bandwidth()) return inter;
    return inter == Bandwidth() ? intra : std::min(intra, inter);
  }
};

AchievedLinks LinksOf(const CommunicationPath& path, const calibration::LinkCosts& links) {
  const auto part = [](Bandwidth wire, double efficiency) {
    return wire == Bandwidth() ? wire : Achieved(wire, efficiency);
  };
  return {.intra = part(path.intra_bandwidth,
                        path.intra_is_nvlink ? links.nvlink_efficiency : links.pcie_efficiency),
          .inter = part(path.inter_bandwidth, links.network_efficiency)};
}

AlgorithmTime RealRing(CollectiveKind kind, Bytes bytes, const CommunicationPath& path,
                       const calibration::LinkCosts& links, Bandwidth bandwidth) {
  const Time intra = std::max(path.intra_is_nvlink ? links.ring_nvlink_hop : links.ring_pcie_hop,
                              path.intra_latency);
  const Time inter = links.ring_network_hop + path.inter_latency;
  const std::int64_t inter_hops = path.nodes - 1;
  const std::int64_t intra_hops = path.ranks - 1 - inter_hops;
  return {.latency = links.ring_base + RingRounds(kind) * (intra_hops * intra + inter_hops * inter),
          .work = TimeOf(RingPart(kind, path.ranks), bytes, bandwidth)};
}

AlgorithmTime RealTreeAllReduce(Bytes bytes, const CommunicationPath& path,
                                const calibration::LinkCosts& links, Bandwidth bandwidth) {
  const Time intra = std::max(path.intra_is_nvlink ? links.tree_nvlink_hop : links.tree_pcie_hop,
                              path.intra_latency);
  const Time inter = links.tree_network_hop + path.inter_latency;
  return {.latency = links.tree_base + 2 * (std::int64_t{path.ranks_per_node - 1} * intra +
                                            FloorLog2(path.nodes) * inter),
          .work = TimeOf(kTreeAllReduce, bytes, bandwidth)};
}

// All messages at once: one latency, and the longer of the transfers inside nodes and between them.
AlgorithmTime Exchanged(CollectiveKind kind, Bytes bytes, const CommunicationPath& path,
                        const calibration::LinkCosts* links) {
  if (path.flat || links == nullptr) {
    const LinkTimes wire = FastestExchangeTimes(kind, bytes, path);
    return {.latency = wire.latency, .work = wire.bandwidth_bound()};
  }
  CommunicationPath achieved = path;
  achieved.intra_bandwidth = LinksOf(path, *links).intra;
  achieved.inter_bandwidth = LinksOf(path, *links).inter;
  const Time hop = path.nodes > 1 ? links->ring_network_hop + path.inter_latency
                                  : std::max(path.intra_is_nvlink ? links->ring_nvlink_hop
                                                                  : links->ring_pcie_hop,
                                             path.intra_latency);
  return {.latency = links->ring_base + hop,
          .work = FastestExchangeTimes(kind, bytes, achieved).bandwidth_bound()};
}

void SetShares(Demand& demand, const CommunicationPath& path, const calibration::LinkCosts* links) {
  if (demand.work == Time()) return;
  double& scale_up = demand.share[static_cast<std::size_t>(Resource::kScaleUp)];
  double& network = demand.share[static_cast<std::size_t>(Resource::kNetwork)];
  if (path.flat || links == nullptr) {
    (path.nodes > 1 ? network : scale_up) = 1;
    return;
  }
  const AchievedLinks achieved = LinksOf(path, *links);
  const auto narrowest = static_cast<double>(achieved.narrowest().bytes_per_second());
  const auto part = [&](Bandwidth bandwidth) {
    return bandwidth == Bandwidth() ? 0
                                    : narrowest / static_cast<double>(bandwidth.bytes_per_second());
  };
  scale_up = part(achieved.intra);
  network = part(achieved.inter);
}

}  // namespace

double WireBytesPerRank(CollectiveKind kind, Bytes bytes, int ranks) {
  if (kind == CollectiveKind::kSendRecv) {
    return ranks == 1 ? 0 : static_cast<double>(bytes.count());
  }
  const bool from_or_to_root = kind == CollectiveKind::kScatter || kind == CollectiveKind::kGather;
  const double rounds = from_or_to_root ? 1.0 / ranks : RingRounds(kind);
  return rounds * (ranks - 1) * static_cast<double>(bytes.count()) / ranks;
}

Time BandwidthBound(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) {
  if (path.ranks == 1 || path.ring_bandwidth == Bandwidth()) return Time();
  if (IsExchange(kind)) return FastestExchangeTimes(kind, bytes, path).bandwidth_bound();
  return TimeOf(RingPart(kind, path.ranks), bytes, path.ring_bandwidth);
}

Time MeasurementBound(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) {
  if (path.flat || IsExchange(kind)) return BandwidthBound(kind, bytes, path);
  const bool several_nodes = path.nodes > 1;
  const std::int64_t parties = several_nodes ? path.nodes : path.ranks;
  const Bandwidth bandwidth = several_nodes ? path.inter_bandwidth : path.intra_bandwidth;
  if (parties == 1 || bandwidth == Bandwidth()) return Time();
  const bool whole = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
  return TimeOf(whole ? Fraction{1, 1} : Fraction{parties - 1, parties}, bytes, bandwidth);
}

CollectivePrice PriceModelledCollective(CollectiveKind kind, Bytes bytes,
                                        const CommunicationPath& path,
                                        const calibration::LinkCosts* links,
                                        CollectiveAlgorithm algorithm) {
  CollectivePrice price;
  if (path.ranks == 1) {
    price.algorithm = "none";
    return price;
  }
  STEPCAST_CHECK(path.flat || links != nullptr,
                 "if the cluster is not flat, the profile must have "
                 "the costs of links");
  STEPCAST_CHECK(path.ring_bandwidth > Bandwidth(),
                 "the forecast of a collective needs a link with a bandwidth");

  AlgorithmTime ring;
  std::optional<AlgorithmTime> tree;
  const bool exchange = IsExchange(kind);
  if (exchange) {
    ring = Exchanged(kind, bytes, path, links);
  } else if (path.flat) {
    ring = FlatRing(kind, bytes, path);
    if (HasTree(kind) && algorithm != CollectiveAlgorithm::kRing) {
      tree = FlatTree(kind, bytes, path);
    }
  } else {
    const Bandwidth bandwidth = LinksOf(path, *links).narrowest();
    ring = RealRing(kind, bytes, path, *links, bandwidth);
    if (kind == CollectiveKind::kAllReduce && algorithm != CollectiveAlgorithm::kRing) {
      tree = RealTreeAllReduce(bytes, path, *links, bandwidth);
    }
  }
  const bool take_tree =
      tree && (algorithm == CollectiveAlgorithm::kTree || tree->total() < ring.total());
  const AlgorithmTime& time = take_tree ? *tree : ring;

  price.algorithm = exchange ? "pairwise" : take_tree ? "tree" : "ring";
  price.demand.latency = time.latency;
  price.demand.work = time.work;
  price.demand.provenance = Provenance::kModelled;
  SetShares(price.demand, path, links);
  price.wire_bytes_per_rank = WireBytesPerRank(kind, bytes, path.ranks);
  price.bandwidth_bound = BandwidthBound(kind, bytes, path);
  STEPCAST_CHECK(price.demand.uncontended() >= price.bandwidth_bound,
                 "a collective must not be faster than its bandwidth bound");
  return price;
}

CollectivePrice PriceTabulatedCollective(Bytes bytes, const CommunicationPath& path,
                                         const calibration::LinkCosts* links,
                                         const calibration::CollectiveTable& table) {
  CollectivePrice price;
  const TableTime measured = TimeFromTable(table, bytes);
  price.algorithm = "table";
  price.demand.latency = std::min(measured.time, table.points.front().second);
  price.demand.work = measured.time - price.demand.latency;
  price.demand.provenance = measured.provenance;
  SetShares(price.demand, path, links);
  price.wire_bytes_per_rank = WireBytesPerRank(table.collective, bytes, path.ranks);
  price.bandwidth_bound = MeasurementBound(table.collective, bytes, path);
  // If both points keep the bound, so do points in between: a rising logarithm lies above its
  // chord, a falling one above its end. The allowed difference is one of rounding.
  STEPCAST_CHECK(price.demand.uncontended() + Picoseconds(1) >= price.bandwidth_bound,
                 "a measured collective must not be faster than the link");
  return price;
}

}  // namespace stepcast::cost
