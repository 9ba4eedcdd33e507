#include "src/cost/nccl_price.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "src/base/check.h"
#include "src/base/transport.h"
#include "src/cost/collective_price.h"
#include "src/cost/exact_time.h"
#include "src/cost/nccl_estimate.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {
namespace {

using topology::CommunicationPath;

const char* ProtocolName(nccl::Protocol protocol) { return nccl::Name(protocol).data(); }

Time FromMicroseconds(double us) {
  constexpr double kLongest = 8.6e10;  // a day: Price() reports what comes near it
  return Picoseconds(static_cast<std::int64_t>(std::llround(std::min(us, kLongest) * 1e6)));
}

}  // namespace

// An estimate, and its time corrected by measurements.
struct NcclPricer::Timed {
  Estimate estimate;
  double us = 0;
  Provenance provenance = Provenance::kModelled;
};

std::optional<NcclPricer::Estimate> NcclPricer::OnLinks(const Asked& asked,
                                                        const LinkSpeeds& speeds, const Way& way) {
  std::optional<Estimate> estimate =
      EstimateOf(asked.kind, asked.bytes, Machine(asked.shape, speeds), way);
  if (!estimate) return std::nullopt;
  CommunicationPath there = asked.path;
  if (asked.path.intra_is_nvlink) {
    there.intra_bandwidth = Faster(asked.path.intra_bandwidth, speeds.nvlink / own_.nvlink);
  }
  there.inter_bandwidth = Faster(asked.path.inter_bandwidth, speeds.network);
  const LinkTimes links = estimate->Fastest(asked.kind, asked.bytes, there);
  // Efficiencies of the fabric for a transfer, whether or not NCCL knows them.
  const calibration::LinkCosts& costs = *setting_.links;
  // LL sends a four-byte flag with every four bytes of data.
  const double sent = estimate->tuned && estimate->protocol == nccl::Protocol::kLl ? 2 : 1;
  const double transfer =
      sent *
      std::max({links.intra.microseconds() /
                    (asked.path.intra_is_nvlink ? costs.nvlink_efficiency : costs.pcie_efficiency),
                links.inter.microseconds() / costs.network_efficiency,
                OnSockets(asked.kind, links.inter, there, *estimate)});
  estimate->transfer = std::max(estimate->transfer, transfer);
  estimate->wire = links.latency.microseconds();
  return estimate;
}

double NcclPricer::OnSockets(CollectiveKind kind, Time inter, const CommunicationPath& path,
                             const Estimate& estimate) const {
  const topology::Fabric* fabric = setting_.cluster->fabric();
  if (fabric == nullptr || fabric->transport != Transport::kSockets || path.nodes == 1) return 0;
  constexpr int kFlowsOfATree = 2;  // of a channel, out of a node
  int flows = estimate.channels * fabric->sockets.per_channel;
  if (estimate.tuned == nccl::Algorithm::kTree) flows *= kFlowsOfATree;
  // Every rank of a node sends over its own channels.
  if (!estimate.tuned && kind != CollectiveKind::kSendRecv) flows *= path.ranks_per_node;
  const double bytes =
      inter.seconds() * static_cast<double>(path.inter_bandwidth.bytes_per_second());
  double seconds = bytes / (flows * static_cast<double>(fabric->sockets.flow.bytes_per_second()) *
                            setting_.links->network_efficiency);
  constexpr double kPasses = 8;  // over the host's memory, of what is sent and what is received
  const std::optional<topology::Host>& host = setting_.cluster->node_type()->host;
  if (host && host->memory_bandwidth > Bandwidth()) {
    seconds = std::max(
        seconds, kPasses * bytes / static_cast<double>(host->memory_bandwidth.bytes_per_second()));
  }
  return seconds * 1e6;
}

void NcclPricer::SetShares(const Asked& asked, const Estimate& estimate,
                           CollectivePrice& price) const {
  price.protocol = ProtocolName(estimate.protocol);
  price.channels = estimate.channels;
  Demand& demand = price.demand;
  if (demand.work == Time()) return;
  const LinkTimes links = estimate.Fastest(asked.kind, asked.bytes, asked.path);
  const double seconds = demand.work.seconds();
  const auto set = [&](Resource resource, double part) {
    demand.share[static_cast<std::size_t>(resource)] = std::clamp(part, 0.0, 1.0);
  };
  const auto achieved = [](Time raw, double efficiency) { return raw.seconds() / efficiency; };
  const calibration::LinkCosts& costs = *setting_.links;
  set(Resource::kCompute, static_cast<double>(estimate.channels) / setting_.gpu->multiprocessors);
  demand.occupancy = Occupancy::kHolds;
  const double memory_bytes = estimate.in_switch()
                                  ? 2 * static_cast<double>(asked.bytes.count())
                                  : 3 * WireBytesPerRank(asked.kind, asked.bytes, asked.path.ranks);
  set(Resource::kMemory,
      memory_bytes /
          (seconds * static_cast<double>(setting_.gpu->memory_bandwidth.bytes_per_second())));
  set(Resource::kScaleUp,
      achieved(links.intra,
               asked.path.intra_is_nvlink ? costs.nvlink_efficiency : costs.pcie_efficiency) /
          seconds);
  set(Resource::kNetwork, achieved(links.inter, costs.network_efficiency) / seconds);
}

std::optional<NcclPricer::Timed> NcclPricer::TimeOf(const Asked& asked, bool use_curves,
                                                    const Way& way) {
  const std::optional<Estimate> estimate = OnLinks(asked, own_, way);
  if (!estimate) return std::nullopt;
  Timed timed{.estimate = *estimate, .us = estimate->total()};
  if (use_curves) {
    const Correction correction = CorrectionOf(asked, *estimate);
    timed.us *= correction.factor;
    timed.provenance = correction.provenance;
  }
  return timed;
}

void NcclPricer::NotFasterThanFewerNodes(const Asked& asked, Timed& timed) {
  const auto local = static_cast<int>(asked.shape.gpus.size());
  const bool measured = timed.provenance < Provenance::kExtrapolated;
  if (measured || IsExchange(asked.kind) || local * asked.shape.nodes != asked.shape.ranks) return;
  for (int nodes = asked.shape.nodes / 2; nodes * local >= 2; nodes /= 2) {
    GroupShape fewer = asked.shape;
    fewer.nodes = nodes;
    fewer.ranks = nodes * local;
    CommunicationPath links = asked.path;
    links.nodes = nodes;
    links.ranks = fewer.ranks;
    if (nodes == 1) {
      links.inter_latency = Time();
      links.inter_bandwidth = Bandwidth();
      links.ring_bandwidth = links.intra_bandwidth;
    }
    const std::optional<Timed> other =
        TimeOf({asked.kind, asked.bytes, links, fewer}, /*use_curves=*/true, {});
    if (!other || other->us <= timed.us) continue;
    timed.us = other->us;
    timed.provenance = std::max(timed.provenance, Provenance::kTransferred);
  }
}

std::optional<CollectivePrice> NcclPricer::PriceWith(const Asked& asked, bool use_curves,
                                                     const Way& way) {
  STEPCAST_CHECK(asked.path.ranks > 1 && asked.path.ranks == asked.shape.ranks,
                 "a group must have at least two ranks");
  std::optional<Timed> timed = TimeOf(asked, use_curves, way);
  if (!timed) return std::nullopt;
  if (use_curves) NotFasterThanFewerNodes(asked, *timed);
  const Estimate& estimate = timed->estimate;
  const Provenance provenance = timed->provenance;
  const LinkTimes links = estimate.Fastest(asked.kind, asked.bytes, asked.path);

  CollectivePrice price;
  price.algorithm = estimate.algorithm;
  price.wire_bytes_per_rank = WireBytesPerRank(asked.kind, asked.bytes, asked.path.ranks);
  // A measurement may have run with another algorithm than the tuner of this release chooses.
  price.bandwidth_bound = provenance == Provenance::kModelled
                              ? links.bandwidth_bound()
                              : std::min(MeasurementBound(asked.kind, asked.bytes, asked.path),
                                         links.bandwidth_bound());
  // In the formula, links start to carry data once the kernel is launched. A measurement contains
  // both.
  const Time launch = setting_.law->launch;
  const Time least =
      provenance == Provenance::kModelled ? launch + price.bandwidth_bound : price.bandwidth_bound;
  const Time total = std::max({FromMicroseconds(timed->us), least, links.latency});
  price.demand.latency = std::min(launch, total - price.bandwidth_bound);
  price.demand.work = total - price.demand.latency;
  price.demand.provenance = provenance;
  SetShares(asked, estimate, price);
  STEPCAST_CHECK(price.demand.uncontended() >= price.bandwidth_bound &&
                     price.demand.uncontended() >= links.latency,
                 "a collective must not be faster than its links");
  return price;
}

std::optional<CollectivePrice> NcclPricer::Price(const Asked& asked,
                                                 const GroupShape* communicator) {
  const CommunicationPath links = LinksOf(asked, communicator);
  return PriceWith(asked.On(links), true, {.communicator = communicator});
}

std::optional<CollectivePrice> NcclPricer::PriceByLaw(const Asked& asked) {
  const CommunicationPath links = LinksOf(asked);
  return PriceWith(asked.On(links), false, {});
}

std::optional<NcclPricer::FasterChoice> NcclPricer::FasterByLaw(const Asked& asked) {
  if (IsExchange(asked.kind)) return std::nullopt;
  const CommunicationPath links = LinksOf(asked);
  const std::optional<CollectivePrice> taken = PriceWith(asked.On(links), false, {});
  if (!taken) return std::nullopt;
  FasterChoice choice{.taken = *taken, .fastest = *taken};
  for (const nccl::Algorithm algorithm : nccl::kAlgorithms) {
    for (const nccl::Protocol protocol : nccl::kProtocols) {
      const auto other =
          PriceWith(asked.On(links), false, {.choice = std::pair(algorithm, protocol)});
      if (other && other->demand.uncontended() < choice.fastest.demand.uncontended())
        choice.fastest = *other;
    }
  }
  const double part =
      choice.fastest.demand.uncontended().seconds() / taken->demand.uncontended().seconds();
  return part <= 1 - kLeastFaster ? std::optional(choice) : std::nullopt;
}

void NcclPricer::AddShares(const Asked& asked, CollectivePrice& price) {
  if (const auto estimate = EstimateOf(asked.kind, asked.bytes, Machine(asked.shape, own_), {})) {
    const CommunicationPath links = LinksOf(asked);
    SetShares(asked.On(links), *estimate, price);
    price.protocol = "";  // whatever ran is in the table
  }
}

CollectiveSpread SpreadOf(Provenance provenance, Bytes bytes, const CommunicationPath& path) {
  const bool short_message = bytes < MiB(1), long_message = bytes >= MiB(64);
  if (provenance != Provenance::kModelled) {
    return long_message ? CollectiveSpread{0.9, 1.15} : CollectiveSpread{0.85, 1.4};
  }
  if (path.nodes > 1) {
    return long_message ? CollectiveSpread{0.85, 1.3} : CollectiveSpread{0.9, 3.2};
  }
  if (short_message) return {0.3, 1.1};
  if (!path.intra_is_nvlink) {
    return long_message ? CollectiveSpread{0.5, 1.7} : CollectiveSpread{0.6, 1.4};
  }
  return long_message ? CollectiveSpread{0.85, 1.5} : CollectiveSpread{0.5, 1.35};
}

}  // namespace stepcast::cost
