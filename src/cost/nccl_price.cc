#include "src/cost/nccl_price.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/base/transport.h"
#include "src/cost/collective_price.h"
#include "src/cost/curve_time.h"
#include "src/cost/exact_time.h"
#include "src/cost/nccl_setting.h"
#include "src/nccl/bandwidth.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::cost {
namespace {

using calibration::CollectiveCurve;
using calibration::WireClass;
using topology::CommunicationPath;

nccl::Function FunctionOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return nccl::Function::kAllReduce;
    case CollectiveKind::kReduceScatter:
      return nccl::Function::kReduceScatter;
    case CollectiveKind::kAllGather:
      return nccl::Function::kAllGather;
    case CollectiveKind::kBroadcast:
      return nccl::Function::kBroadcast;
    case CollectiveKind::kReduce:
      return nccl::Function::kReduce;
    default:
      STEPCAST_CHECK(false, "the tuner does not know exchanges");
  }
  return nccl::Function::kAllReduce;
}

nccl::Exchange ExchangeOfKind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllToAll:
      return nccl::Exchange::kAllToAll;
    case CollectiveKind::kScatter:
      return nccl::Exchange::kScatter;
    case CollectiveKind::kGather:
      return nccl::Exchange::kGather;
    default:
      return nccl::Exchange::kShift;
  }
}

const char* ProtocolName(nccl::Protocol protocol) { return nccl::Name(protocol).data(); }

WireClass ClassOf(nccl::Algorithm algorithm, nccl::Protocol protocol) {
  if (algorithm == nccl::Algorithm::kNvls || algorithm == nccl::Algorithm::kNvlsTree) {
    return WireClass::kSwitch;
  }
  switch (protocol) {
    case nccl::Protocol::kLl:
      return WireClass::kLl;
    case nccl::Protocol::kLl128:
      return WireClass::kLl128;
    case nccl::Protocol::kSimple:
      return WireClass::kSimple;
  }
  return WireClass::kSimple;
}

// The collective that sends the same bytes in the same steps.
std::optional<CollectiveKind> TwinOf(CollectiveKind kind) {
  if (kind == CollectiveKind::kAllGather) return CollectiveKind::kReduceScatter;
  if (kind == CollectiveKind::kReduceScatter) return CollectiveKind::kAllGather;
  if (kind == CollectiveKind::kBroadcast) return CollectiveKind::kReduce;
  if (kind == CollectiveKind::kReduce) return CollectiveKind::kBroadcast;
  return std::nullopt;
}

// The choice that the user's settings leave NCCL for a function, as curves state it: "" if they say
// nothing, a name if they leave one algorithm. Nothing if no curve can match.
std::optional<std::string> ForcedAlgorithm(const nccl::Overrides& overrides,
                                           nccl::Function function) {
  if (!overrides.protocols.is_default(function)) return std::nullopt;
  if (overrides.algorithms.is_default(function)) return std::string();
  std::optional<std::string> only;
  for (nccl::Algorithm algorithm : nccl::kAlgorithms) {
    if (!overrides.algorithms.allows(function, algorithm)) continue;
    if (only) return std::nullopt;
    only = AlgorithmName(algorithm);
  }
  return only;
}

Time FromMicroseconds(double us) {
  constexpr double kLongest = 8.6e10;  // a day: Price() reports what comes near it
  return Picoseconds(static_cast<std::int64_t>(std::llround(std::min(us, kLongest) * 1e6)));
}

bool Alike(Bandwidth a, Bandwidth b) {
  constexpr double kTolerance = 0.1;
  const double x = a.gigabytes_per_second();
  const double y = b.gigabytes_per_second();
  return std::abs(x - y) <= kTolerance * std::max(x, y);
}

double Ratio(Bandwidth a, Bandwidth b) {
  return static_cast<double>(a.bytes_per_second()) / static_cast<double>(b.bytes_per_second());
}

Bandwidth Faster(Bandwidth bandwidth, double factor) {
  if (factor == 1) return bandwidth;
  return Bandwidth::BytesPerSecond(
      std::llround(static_cast<double>(bandwidth.bytes_per_second()) * factor));
}

// The communicator with NVLinks `speed` times as fast as NCCL assumes. Across nodes, rings and
// trees are limited by the cards, which faster NVLinks do not change.
nccl::Communicator OverNvlinks(nccl::Communicator communicator, double speed) {
  nccl::Graphs& graphs = communicator.graphs;
  for (nccl::Graph* graph :
       {&graphs.ring, &graphs.tree, &graphs.collnet_chain, &graphs.collnet_direct, &graphs.nvls}) {
    if (graph->type_intra > nccl::PathType::kNvlinkBridge) continue;
    if (communicator.nodes == 1) {
      graph->bw_intra *= speed;
      graph->bw_inter *= speed;
    } else {
      graph->bw_intra *= graph == &graphs.nvls ? speed : std::min(speed, 1.0);
    }
  }
  return communicator;
}

// The distance, in doublings, of a size from the sizes of a curve with one mechanism, on a side
// where the curve continues with the other. 0 if the curve itself ends there.
double OutsideOfMechanism(const std::vector<calibration::TimePoint>& points,
                          const std::vector<calibration::TimePoint>& others, double size) {
  if (others.empty()) return 0;
  const auto first = static_cast<double>(points.front().first.count());
  const auto last = static_cast<double>(points.back().first.count());
  if (size < first && others.front().first < points.front().first) return std::log2(first / size);
  if (size > last && others.back().first > points.back().first) return std::log2(size / last);
  return 0;
}

int LocalRanks(const CollectiveCurve& curve) { return curve.ranks / curve.nodes; }

}  // namespace

const char* AlgorithmName(nccl::Algorithm algorithm) {
  constexpr const char* kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                    "nvls_tree", "pat"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

GroupShape ShapeOf(std::span<const int> ranks, int gpus_per_node) {
  std::map<int, std::vector<int>> by_node;
  for (int rank : ranks) by_node[rank / gpus_per_node].push_back(rank % gpus_per_node);
  GroupShape shape{.ranks = static_cast<int>(ranks.size()),
                   .nodes = static_cast<int>(by_node.size()),
                   .gpus = {}};
  for (const auto& [node, gpus] : by_node) {
    if (gpus.size() > shape.gpus.size()) shape.gpus = gpus;
  }
  std::sort(shape.gpus.begin(), shape.gpus.end());
  return shape;
}

// NCCL's chosen algorithm, and the tuning model's time for it in microseconds.
struct NcclPricer::Estimate {
  const char* algorithm = "ring";
  std::optional<nccl::Algorithm> tuned;  // none: sends and receives
  nccl::Protocol protocol = nccl::Protocol::kSimple;
  int channels = 1;
  double launch = 0;
  double latency = 0;   // of the tuner
  double wire = 0;      // latency of the links: it is in the tuner's, or longer
  double stretch = 1;   // of what software takes, not of the wire
  double transfer = 0;  // by the law
  double total() const {
    return launch + std::max(latency, wire) + latency * (stretch - 1) + transfer;
  }
  bool in_switch() const { return tuned && ClassOf(*tuned, protocol) == WireClass::kSwitch; }
  LinkTimes Fastest(CollectiveKind kind, Bytes bytes, const CommunicationPath& path) const {
    return tuned ? FastestLinkTimes(kind, *tuned, bytes, path)
                 : FastestExchangeTimes(kind, bytes, path);
  }
};

// An estimate, and its time corrected by measurements.
struct NcclPricer::Timed {
  Estimate estimate;
  double us = 0;
  Provenance provenance = Provenance::kModelled;
};

NcclPricer::NcclPricer(NcclSetting setting) : setting_(std::move(setting)) {
  STEPCAST_CHECK(setting_.cluster != nullptr && setting_.gpu != nullptr &&
                     setting_.links != nullptr && setting_.law != nullptr,
                 "NCCL needs a machine and its costs");
  const topology::NodeType& node = *setting_.cluster->node_type();
  const GpuLinks nvlinks = LinksOfAGpu(node, topology::LinkKind::kNvLink);
  nvlink_ = nvlinks.bandwidth;
  pcie_ = LinksOfAGpu(node, topology::LinkKind::kPcie).bandwidth;
  if (nvlinks.count > 0) {
    own_.nvlink = nvlink_.gigabytes_per_second() /
                  (nvlinks.count * nccl::NvlinkRate(setting_.gpu->compute_capability));
  }
}

nccl::Node NcclPricer::NodeOf(const Machine& machine) const {
  const auto& [shape, speeds] = machine;
  const topology::Fabric* fabric = setting_.cluster->fabric();
  const Bandwidth port = fabric != nullptr && shape.nodes > 1
                             ? Faster(fabric->link.bandwidth, speeds.network)
                             : Bandwidth();
  nccl::Node node =
      NcclNode(*setting_.cluster->node_type(), setting_.gpu->compute_capability, port, shape.gpus);
  for (nccl::Nic& nic : node.nics) nic.reduces = setting_.collnet && fabric->sharp;
  return node;
}

const NcclPricer::Communicator& NcclPricer::CommunicatorOf(const Machine& machine) {
  const auto found = communicators_.find(machine);
  if (found != communicators_.end()) return found->second;
  const auto& [shape, speeds] = machine;
  nccl::Communicator communicator =
      FindCommunicator(NodeOf(machine), shape.nodes, setting_.version);
  communicator.ranks = shape.ranks;  // nodes may hold fewer than the fullest
  if (!setting_.multicast) communicator.nvls_channels = 0;
  return communicators_
      .emplace(machine,
               Communicator{nccl::CommunicatorModel(communicator, setting_.overrides),
                            nccl::CommunicatorModel(OverNvlinks(communicator, speeds.nvlink),
                                                    setting_.overrides),
                            communicator.graphs.ring.type_intra, communicator.compute_channels})
      .first->second;
}

const nccl::ExchangeModel& NcclPricer::ExchangeOf(const Machine& machine,
                                                  const GroupShape* communicator) {
  const auto& [shape, speeds] = machine;
  std::vector<int> gpus;  // of the node, where others than the group's may relay
  if (communicator != nullptr && shape.nodes == 1) {
    std::set_union(shape.gpus.begin(), shape.gpus.end(), communicator->gpus.begin(),
                   communicator->gpus.end(), std::back_inserter(gpus));
    if (gpus == shape.gpus) gpus.clear();
  }
  const auto found = exchanges_.find({machine, gpus});
  if (found != exchanges_.end()) return found->second;
  Machine around = machine;
  std::vector<std::size_t> members;
  if (!gpus.empty()) {
    around.first = {.ranks = static_cast<int>(gpus.size()), .nodes = 1, .gpus = gpus};
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (std::binary_search(shape.gpus.begin(), shape.gpus.end(), gpus[i])) members.push_back(i);
    }
  }
  return exchanges_
      .emplace(
          std::pair(machine, std::move(gpus)),
          nccl::ExchangeModel(NodeOf(around), shape.nodes, CommunicatorOf(around).compute_channels,
                              setting_.version, speeds.nvlink, std::move(members)))
      .first->second;
}

CommunicationPath NcclPricer::LinksOf(const CommunicationPath& path, const GroupShape& shape,
                                      const GroupShape* communicator) {
  CommunicationPath links = path;
  if (path.ranks_per_node == 1 || path.intra_is_nvlink) return links;
  const bool nvlink = communicator == nullptr
                          ? CommunicatorOf(shape).nvlink()
                          : ExchangeOf(Machine(shape, own_), communicator).nvlink();
  if (nvlink) {
    links.intra_is_nvlink = true;
    links.intra_bandwidth = Bandwidth();
    links.intra_latency = Time();
  }
  return links;
}

NcclPricer::Estimate NcclPricer::EstimateExchange(CollectiveKind kind, Bytes bytes,
                                                  const Machine& machine,
                                                  const GroupShape* communicator) {
  const nccl::ExchangeModel& model = ExchangeOf(machine, communicator);
  const nccl::PointToPointChannels& channels =
      communicator == nullptr ? model.channels()
                              : ExchangeOf(Machine(*communicator, machine.second)).channels();
  const nccl::ExchangeTime time = model.Price(ExchangeOfKind(kind), bytes, channels);
  const calibration::CollectiveLaw& law = *setting_.law;
  const calibration::CollectiveLaw::Ramp& ramp =
      law.Of(time.protocol == nccl::Protocol::kLl ? WireClass::kLl : WireClass::kSimple);
  Estimate estimate;
  estimate.algorithm =
      time.through_rails && kind == CollectiveKind::kAllToAll ? "node_aware" : "pairwise";
  estimate.protocol = time.protocol;
  estimate.channels = time.channels;
  estimate.launch = law.launch.microseconds();
  estimate.latency = time.latency;
  estimate.stretch = ramp.StretchOf(static_cast<double>(bytes.count()) / time.channels);
  estimate.transfer = time.transfer / ramp.efficiency;
  return estimate;
}

std::optional<NcclPricer::Estimate> NcclPricer::EstimateOf(CollectiveKind kind, Bytes bytes,
                                                           const Machine& machine, const Way& way) {
  if (IsExchange(kind)) return EstimateExchange(kind, bytes, machine, way.communicator);
  const Communicator& communicator = CommunicatorOf(machine);
  const nccl::CommunicatorModel& model = communicator.model;
  const nccl::Collective collective{.function = FunctionOf(kind), .bytes = bytes};
  if (way.choice && !model.PredictedTime(collective, way.choice->first, way.choice->second)) {
    return std::nullopt;
  }
  const std::optional<nccl::Choice> choice =
      way.choice ? model.WithResources(collective, way.choice->first, way.choice->second)
                 : model.Choose(collective);
  if (!choice) return std::nullopt;
  Estimate estimate;
  estimate.algorithm = AlgorithmName(choice->algorithm);
  estimate.tuned = choice->algorithm;
  estimate.protocol = choice->protocol;
  estimate.channels = nccl::ChannelsUsed(collective, choice->algorithm, choice->protocol,
                                         machine.first.ranks, choice->channels, setting_.version);
  const double time =
      communicator.timing.PredictedTime(collective, choice->algorithm, choice->protocol)
          .value_or(choice->predicted_time);
  const calibration::CollectiveLaw& law = *setting_.law;
  const calibration::CollectiveLaw::Ramp& ramp =
      law.Of(ClassOf(choice->algorithm, choice->protocol));
  estimate.launch = law.launch.microseconds();
  estimate.latency =
      std::min(model.latency(collective.function, choice->algorithm, choice->protocol), time);
  estimate.stretch =
      ramp.StretchOf(static_cast<double>(bytes.count()) / std::max(1, choice->channels));
  estimate.transfer = (time - estimate.latency) / ramp.efficiency;
  return estimate;
}

NcclPricer::Group& NcclPricer::GroupOf(CollectiveKind kind, const CommunicationPath& path,
                                       const GroupShape& shape) {
  const auto [entry, added] =
      groups_.try_emplace({kind, shape, path.inter_bandwidth.bytes_per_second()});
  Group& group = entry->second;
  if (!added) return group;
  const bool forced_otherwise =
      !IsExchange(kind) && !ForcedAlgorithm(setting_.overrides, FunctionOf(kind));
  const bool in_network = setting_.collnet && shape.nodes > 1;
  // Groups whose nodes hold different numbers of ranks have no common shape.
  const bool uneven = static_cast<int>(shape.gpus.size()) * shape.nodes != shape.ranks;
  group.any = !forced_otherwise && !in_network && !uneven;
  return group;
}

std::optional<NcclPricer::LinkSpeeds> NcclPricer::SpeedsOf(const calibration::CurveFile& file,
                                                           const CommunicationPath& path,
                                                           const GroupShape& shape,
                                                           bool like_these) const {
  LinkSpeeds speeds = own_;
  bool all_like_these = true;
  if (path.ranks_per_node > 1) {
    if (file.nvlink != path.intra_is_nvlink) return std::nullopt;
    const bool pcie_known = !file.nvlink && file.inside != Bandwidth();
    if (pcie_known && !Alike(file.inside, pcie_)) return std::nullopt;
    if (file.nvlink && Alike(file.inside, nvlink_)) {
      speeds.nvlink *= Ratio(file.inside, nvlink_);
    } else if (file.nvlink) {
      // The same number of links, at the speed that they were built with.
      if (!Alike(file.inside, Faster(nvlink_, 1 / own_.nvlink))) return std::nullopt;
      speeds.nvlink = 1;
      all_like_these = false;
    }
  }
  if (path.nodes > 1) {
    if (!Alike(file.transport, setting_.cluster->fabric()->transport)) return std::nullopt;
    // A file states the network bandwidth of all NICs of a node.
    const bool whole_nodes = static_cast<int>(shape.gpus.size()) == GpusOfANode();
    const bool alike = Alike(file.network, path.inter_bandwidth);
    const bool known = whole_nodes && file.network != Bandwidth();
    if (!alike && !known) return std::nullopt;
    all_like_these = all_like_these && alike;
    // A scaled curve is scaled from the machine it was measured on, however similar that is.
    if (!all_like_these && known) speeds.network = Ratio(file.network, path.inter_bandwidth);
  }
  return all_like_these == like_these ? std::optional(speeds) : std::nullopt;
}

std::vector<NcclPricer::Anchor> NcclPricer::FindCurves(CollectiveKind kind,
                                                       const CommunicationPath& path,
                                                       const GroupShape& shape, bool like_these,
                                                       bool exact) {
  const std::string forced =
      IsExchange(kind) ? std::string() : *ForcedAlgorithm(setting_.overrides, FunctionOf(kind));
  const int local = static_cast<int>(shape.gpus.size());
  const std::optional<CollectiveKind> twin = TwinOf(kind);
  std::vector<Anchor> anchors;
  for (const auto& file : setting_.curves) {
    const std::optional<LinkSpeeds> speeds = SpeedsOf(*file, path, shape, like_these);
    if (!speeds) continue;
    for (const CollectiveCurve& curve : file->curves) {
      if (curve.collective != kind && curve.collective != twin) continue;
      if (curve.algorithm != forced || curve.fit.empty()) continue;
      if ((curve.nodes > 1) != (shape.nodes > 1) || (curve.ranks == shape.ranks) != exact) continue;
      if (shape.nodes > 1 && LocalRanks(curve) != local) continue;
      auto anchor = AnchorOf(curve, kind, path, shape, *speeds);
      if (anchor) anchors.push_back(*std::move(anchor));
    }
  }
  return anchors;
}

std::optional<NcclPricer::Anchor> NcclPricer::AnchorOf(const CollectiveCurve& curve,
                                                       CollectiveKind kind,
                                                       const CommunicationPath& path,
                                                       const GroupShape& shape,
                                                       const LinkSpeeds& speeds) {
  const int local = LocalRanks(curve);
  if (local > GpusOfANode()) return std::nullopt;
  const bool exact = curve.ranks == shape.ranks;
  GroupShape there = shape;
  if (!exact) {
    there = {.ranks = curve.ranks, .nodes = curve.nodes, .gpus = {}};
    there.gpus.resize(static_cast<std::size_t>(local));
    std::iota(there.gpus.begin(), there.gpus.end(), 0);
    const nccl::PathType ring_type = CommunicatorOf(Machine(there, speeds)).ring_type;
    if (ring_type != CommunicatorOf(shape).ring_type) return std::nullopt;
  }
  Anchor anchor{.ranks = curve.ranks, .is_twin = curve.collective != kind, .parts = {}};
  for (const auto& [size, time] : curve.fit) {
    const std::optional<Estimate> law =
        exact ? OnLinks(kind, size, path, Machine(there, speeds), {})
              : EstimateOf(curve.collective, size, Machine(there, speeds), {});
    if (!law) return std::nullopt;
    Part& part = anchor.parts[law->in_switch() ? 1 : 0];
    part.points.emplace_back(size, time);
    part.law.push_back(law->total());
  }
  return anchor;
}

const NcclPricer::Part& NcclPricer::Anchor::Of(const Estimate& estimate) const {
  return parts[estimate.in_switch() ? 1 : 0];
}

NcclPricer::Correction NcclPricer::CorrectionOf(CollectiveKind kind, Bytes bytes,
                                                const CommunicationPath& path,
                                                const GroupShape& shape, const Estimate& estimate) {
  Group& group = GroupOf(kind, path, shape);
  if (!group.any) return {};
  for (std::size_t tier = 0; tier < group.tiers.size(); ++tier) {
    const bool like_these = tier < 2;
    auto& anchors = group.tiers[tier];
    if (!anchors) anchors = FindCurves(kind, path, shape, like_these, /*exact=*/tier % 2 == 0);
    std::optional<Correction> correction = CorrectionBy(*anchors, shape, bytes, estimate);
    if (!correction) continue;
    if (!like_these) {
      correction->provenance = std::max(correction->provenance, Provenance::kTransferred);
    }
    return *correction;
  }
  return {};
}

std::optional<NcclPricer::Correction> NcclPricer::CorrectionBy(const std::vector<Anchor>& anchors,
                                                               const GroupShape& shape, Bytes bytes,
                                                               const Estimate& estimate) {
  const double size = std::max(1.0, static_cast<double>(bytes.count()));
  struct Speaker {
    const Anchor* anchor = nullptr;
    double ranks = 0;  // doublings from the group's to the curve's, either way
    double away = 0;   // these, and doublings of the size beyond what was measured
  };
  Speaker exact, below, above;
  const auto find = [&](bool twins) {
    for (const Anchor& anchor : anchors) {
      const auto& points = anchor.Of(estimate).points;
      if (anchor.is_twin != twins || points.empty()) continue;
      const double beyond =
          std::log2(std::max({1.0, static_cast<double>(points.front().first.count()) / size,
                              size / static_cast<double>(points.back().first.count())}));
      const double ranks = std::log2(static_cast<double>(anchor.ranks) / shape.ranks);
      const Speaker speaker{&anchor, std::abs(ranks), std::abs(ranks) + beyond};
      Speaker& nearest = ranks == 0 ? exact : ranks < 0 ? below : above;
      if (nearest.anchor == nullptr || speaker.away < nearest.away) nearest = speaker;
    }
  };
  // `fading`: in doublings of ranks beyond the largest measured number.
  const auto factor_of = [&](const Speaker& speaker, double fading) {
    const Part& part = speaker.anchor->Of(estimate);
    const Part& other = speaker.anchor->parts[estimate.in_switch() ? 0 : 1];
    CurveFactor factor = FactorOnCurve(part.points, part.law, size);
    fading += OutsideOfMechanism(part.points, other.points, size);
    factor.factor = std::pow(factor.factor, std::max(0.0, 1 - fading / kFadeDoublings));
    if (fading >= kFadeDoublings) factor.provenance = Provenance::kModelled;
    return factor;
  };
  const auto found = [&] {
    return exact.anchor != nullptr || below.anchor != nullptr || above.anchor != nullptr;
  };
  find(/*twins=*/false);
  if (!found()) find(/*twins=*/true);
  if (!found()) return std::nullopt;
  const auto transferred = [](const CurveFactor& factor) {
    return Correction{factor.factor, std::max(factor.provenance, Provenance::kTransferred)};
  };
  if (exact.anchor != nullptr) {
    const CurveFactor measured = factor_of(exact, 0);
    if (exact.anchor->is_twin) return transferred(measured);
    return Correction{measured.factor, measured.provenance};
  }
  if (below.anchor != nullptr && above.anchor != nullptr) {
    const double part = below.ranks / (below.ranks + above.ranks);
    return Correction{std::exp(std::log(factor_of(below, 0).factor) * (1 - part) +
                               std::log(factor_of(above, 0).factor) * part),
                      Provenance::kTransferred};
  }
  const Speaker& one = below.anchor != nullptr ? below : above;
  return transferred(factor_of(one, one.ranks));
}

std::optional<NcclPricer::Estimate> NcclPricer::OnLinks(CollectiveKind kind, Bytes bytes,
                                                        const CommunicationPath& path,
                                                        const Machine& machine, const Way& way) {
  std::optional<Estimate> estimate = EstimateOf(kind, bytes, machine, way);
  if (!estimate) return std::nullopt;
  const LinkSpeeds& speeds = machine.second;
  CommunicationPath there = path;
  if (path.intra_is_nvlink) {
    there.intra_bandwidth = Faster(path.intra_bandwidth, speeds.nvlink / own_.nvlink);
  }
  there.inter_bandwidth = Faster(path.inter_bandwidth, speeds.network);
  const LinkTimes links = estimate->Fastest(kind, bytes, there);
  // Efficiencies of the fabric for a transfer, whether or not NCCL knows them.
  const calibration::LinkCosts& costs = *setting_.links;
  // LL sends a four-byte flag with every four bytes of data.
  const double sent = estimate->tuned && estimate->protocol == nccl::Protocol::kLl ? 2 : 1;
  const double transfer =
      sent * std::max({links.intra.microseconds() /
                           (path.intra_is_nvlink ? costs.nvlink_efficiency : costs.pcie_efficiency),
                       links.inter.microseconds() / costs.network_efficiency,
                       OnSockets(kind, links.inter, there, *estimate)});
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

void NcclPricer::SetShares(CollectiveKind kind, Bytes bytes, const CommunicationPath& path,
                           const Estimate& estimate, CollectivePrice& price) const {
  price.protocol = ProtocolName(estimate.protocol);
  price.channels = estimate.channels;
  Demand& demand = price.demand;
  if (demand.work == Time()) return;
  const LinkTimes links = estimate.Fastest(kind, bytes, path);
  const double seconds = demand.work.seconds();
  const auto set = [&](Resource resource, double part) {
    demand.share[static_cast<std::size_t>(resource)] = std::clamp(part, 0.0, 1.0);
  };
  const auto achieved = [](Time raw, double efficiency) { return raw.seconds() / efficiency; };
  const calibration::LinkCosts& costs = *setting_.links;
  set(Resource::kCompute, static_cast<double>(estimate.channels) / setting_.gpu->multiprocessors);
  demand.occupancy = Occupancy::kHolds;
  const double memory_bytes = estimate.in_switch() ? 2 * static_cast<double>(bytes.count())
                                                   : 3 * WireBytesPerRank(kind, bytes, path.ranks);
  set(Resource::kMemory,
      memory_bytes /
          (seconds * static_cast<double>(setting_.gpu->memory_bandwidth.bytes_per_second())));
  set(Resource::kScaleUp, achieved(links.intra, path.intra_is_nvlink ? costs.nvlink_efficiency
                                                                     : costs.pcie_efficiency) /
                              seconds);
  set(Resource::kNetwork, achieved(links.inter, costs.network_efficiency) / seconds);
}

std::optional<NcclPricer::Timed> NcclPricer::TimeOf(CollectiveKind kind, Bytes bytes,
                                                    const CommunicationPath& path,
                                                    const GroupShape& shape, bool use_curves,
                                                    const Way& way) {
  const std::optional<Estimate> estimate = OnLinks(kind, bytes, path, Machine(shape, own_), way);
  if (!estimate) return std::nullopt;
  Timed timed{.estimate = *estimate, .us = estimate->total()};
  if (use_curves) {
    const Correction correction = CorrectionOf(kind, bytes, path, shape, *estimate);
    timed.us *= correction.factor;
    timed.provenance = correction.provenance;
  }
  return timed;
}

void NcclPricer::NotFasterThanFewerNodes(CollectiveKind kind, Bytes bytes,
                                         const CommunicationPath& path, const GroupShape& shape,
                                         Timed& timed) {
  const auto local = static_cast<int>(shape.gpus.size());
  const bool measured = timed.provenance < Provenance::kExtrapolated;
  if (measured || IsExchange(kind) || local * shape.nodes != shape.ranks) return;
  for (int nodes = shape.nodes / 2; nodes * local >= 2; nodes /= 2) {
    GroupShape fewer = shape;
    fewer.nodes = nodes;
    fewer.ranks = nodes * local;
    CommunicationPath links = path;
    links.nodes = nodes;
    links.ranks = fewer.ranks;
    if (nodes == 1) {
      links.inter_latency = Time();
      links.inter_bandwidth = Bandwidth();
      links.ring_bandwidth = links.intra_bandwidth;
    }
    const std::optional<Timed> other = TimeOf(kind, bytes, links, fewer, /*use_curves=*/true, {});
    if (!other || other->us <= timed.us) continue;
    timed.us = other->us;
    timed.provenance = std::max(timed.provenance, Provenance::kTransferred);
  }
}

std::optional<CollectivePrice> NcclPricer::PriceWith(CollectiveKind kind, Bytes bytes,
                                                     const CommunicationPath& path,
                                                     const GroupShape& shape, bool use_curves,
                                                     const Way& way) {
  STEPCAST_CHECK(path.ranks > 1 && path.ranks == shape.ranks, "a group has at least two ranks");
  std::optional<Timed> timed = TimeOf(kind, bytes, path, shape, use_curves, way);
  if (!timed) return std::nullopt;
  if (use_curves) NotFasterThanFewerNodes(kind, bytes, path, shape, *timed);
  const Estimate& estimate = timed->estimate;
  const Provenance provenance = timed->provenance;
  const LinkTimes links = estimate.Fastest(kind, bytes, path);

  CollectivePrice price;
  price.algorithm = estimate.algorithm;
  price.wire_bytes_per_rank = WireBytesPerRank(kind, bytes, path.ranks);
  // A measurement may have run with another algorithm than the tuner of this release chooses.
  price.bandwidth_bound =
      provenance == Provenance::kModelled
          ? links.bandwidth_bound()
          : std::min(MeasurementBound(kind, bytes, path), links.bandwidth_bound());
  // In the formula, links start to carry data once the kernel is launched. A measurement contains
  // both.
  const Time launch = setting_.law->launch;
  const Time least =
      provenance == Provenance::kModelled ? launch + price.bandwidth_bound : price.bandwidth_bound;
  const Time total = std::max({FromMicroseconds(timed->us), least, links.latency});
  price.demand.latency = std::min(launch, total - price.bandwidth_bound);
  price.demand.work = total - price.demand.latency;
  price.demand.provenance = provenance;
  SetShares(kind, bytes, path, estimate, price);
  STEPCAST_CHECK(
      price.demand.alone() >= price.bandwidth_bound && price.demand.alone() >= links.latency,
      "no collective is faster than its links");
  return price;
}

std::optional<CollectivePrice> NcclPricer::Price(CollectiveKind kind, Bytes bytes,
                                                 const CommunicationPath& path,
                                                 const GroupShape& shape,
                                                 const GroupShape* communicator) {
  return PriceWith(kind, bytes, LinksOf(path, shape, communicator), shape, true,
                   {.communicator = communicator});
}

std::optional<CollectivePrice> NcclPricer::PriceByLaw(CollectiveKind kind, Bytes bytes,
                                                      const CommunicationPath& path,
                                                      const GroupShape& shape) {
  return PriceWith(kind, bytes, LinksOf(path, shape), shape, false, {});
}

std::optional<NcclPricer::FasterChoice> NcclPricer::FasterByLaw(CollectiveKind kind, Bytes bytes,
                                                                const CommunicationPath& path,
                                                                const GroupShape& shape) {
  if (IsExchange(kind)) return std::nullopt;
  const CommunicationPath links = LinksOf(path, shape);
  const std::optional<CollectivePrice> taken = PriceWith(kind, bytes, links, shape, false, {});
  if (!taken) return std::nullopt;
  FasterChoice choice{.taken = *taken, .fastest = *taken};
  for (const nccl::Algorithm algorithm : nccl::kAlgorithms) {
    for (const nccl::Protocol protocol : nccl::kProtocols) {
      const auto other =
          PriceWith(kind, bytes, links, shape, false, {.choice = std::pair(algorithm, protocol)});
      if (other && other->demand.alone() < choice.fastest.demand.alone()) choice.fastest = *other;
    }
  }
  const double part = choice.fastest.demand.alone().seconds() / taken->demand.alone().seconds();
  return part <= 1 - kLeastFaster ? std::optional(choice) : std::nullopt;
}

void NcclPricer::AddShares(CollectiveKind kind, Bytes bytes, const CommunicationPath& path,
                           const GroupShape& shape, CollectivePrice& price) {
  if (const auto estimate = EstimateOf(kind, bytes, Machine(shape, own_), {})) {
    SetShares(kind, bytes, LinksOf(path, shape), *estimate, price);
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
