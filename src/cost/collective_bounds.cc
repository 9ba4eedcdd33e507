#include "src/cost/collective_bounds.h"

#include <bit>
#include <cstdint>

#include "src/base/rates.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

using topology::CommunicationPath;

// What the links have to do for one algorithm.
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

}  // namespace stepcast::cost
