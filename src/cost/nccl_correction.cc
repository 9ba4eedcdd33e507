#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/transport.h"
#include "src/cost/collective_price.h"
#include "src/cost/curve_time.h"
#include "src/cost/nccl_estimate.h"
#include "src/cost/nccl_price.h"
#include "src/nccl/node.h"
#include "src/nccl/terms.h"

// The correction of the law's time by measured curves.
namespace stepcast::cost {
namespace {

using calibration::CollectiveCurve;

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

bool Alike(Bandwidth a, Bandwidth b) {
  constexpr double kTolerance = 0.1;
  const double x = a.gigabytes_per_second();
  const double y = b.gigabytes_per_second();
  return std::abs(x - y) <= kTolerance * std::max(x, y);
}

double Ratio(Bandwidth a, Bandwidth b) {
  return static_cast<double>(a.bytes_per_second()) / static_cast<double>(b.bytes_per_second());
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

NcclPricer::Group& NcclPricer::GroupOf(const Asked& asked) {
  const auto [entry, added] =
      groups_.try_emplace({asked.kind, asked.shape, asked.path.inter_bandwidth.bytes_per_second()});
  Group& group = entry->second;
  if (!added) return group;
  const bool forced_otherwise =
      !IsExchange(asked.kind) && !ForcedAlgorithm(setting_.overrides, FunctionOf(asked.kind));
  const bool in_network = setting_.collnet && asked.shape.nodes > 1;
  // Groups whose nodes hold different numbers of ranks have no common shape.
  const bool uneven =
      static_cast<int>(asked.shape.gpus.size()) * asked.shape.nodes != asked.shape.ranks;
  group.any = !forced_otherwise && !in_network && !uneven;
  return group;
}

std::optional<NcclPricer::LinkSpeeds> NcclPricer::SpeedsOf(const calibration::CurveFile& file,
                                                           const Asked& asked,
                                                           bool like_these) const {
  LinkSpeeds speeds = own_;
  bool all_like_these = true;
  if (asked.path.ranks_per_node > 1) {
    if (file.nvlink != asked.path.intra_is_nvlink) return std::nullopt;
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
  if (asked.path.nodes > 1) {
    if (!Alike(file.transport, setting_.cluster->fabric()->transport)) return std::nullopt;
    // A file states the network bandwidth of all NICs of a node.
    const bool whole_nodes = static_cast<int>(asked.shape.gpus.size()) == GpusOfANode();
    const bool alike = Alike(file.network, asked.path.inter_bandwidth);
    const bool known = whole_nodes && file.network != Bandwidth();
    if (!alike && !known) return std::nullopt;
    all_like_these = all_like_these && alike;
    // A scaled curve is always scaled from the machine on which it was measured, even if that
    // machine is similar.
    if (!all_like_these && known) speeds.network = Ratio(file.network, asked.path.inter_bandwidth);
  }
  return all_like_these == like_these ? std::optional(speeds) : std::nullopt;
}

std::vector<NcclPricer::Anchor> NcclPricer::FindCurves(const Asked& asked, bool like_these,
                                                       bool exact) {
  const std::string forced = IsExchange(asked.kind)
                                 ? std::string()
                                 : *ForcedAlgorithm(setting_.overrides, FunctionOf(asked.kind));
  const int local = static_cast<int>(asked.shape.gpus.size());
  const std::optional<CollectiveKind> twin = TwinOf(asked.kind);
  std::vector<Anchor> anchors;
  for (const auto& file : setting_.curves) {
    const std::optional<LinkSpeeds> speeds = SpeedsOf(*file, asked, like_these);
    if (!speeds) continue;
    for (const CollectiveCurve& curve : file->curves) {
      if (curve.collective != asked.kind && curve.collective != twin) continue;
      if (curve.algorithm != forced || curve.fit.empty()) continue;
      if ((curve.nodes > 1) != (asked.shape.nodes > 1)) continue;
      if ((curve.ranks == asked.shape.ranks) != exact) continue;
      if (asked.shape.nodes > 1 && LocalRanks(curve) != local) continue;
      auto anchor = AnchorOf(curve, asked, *speeds);
      if (anchor) anchors.push_back(*std::move(anchor));
    }
  }
  return anchors;
}

std::optional<NcclPricer::Anchor> NcclPricer::AnchorOf(const CollectiveCurve& curve,
                                                       const Asked& asked,
                                                       const LinkSpeeds& speeds) {
  const int local = LocalRanks(curve);
  if (local > GpusOfANode()) return std::nullopt;
  const bool exact = curve.ranks == asked.shape.ranks;
  GroupShape there = asked.shape;
  if (!exact) {
    there = {.ranks = curve.ranks, .nodes = curve.nodes, .gpus = {}};
    there.gpus.resize(static_cast<std::size_t>(local));
    std::iota(there.gpus.begin(), there.gpus.end(), 0);
    const nccl::PathType ring_type = CommunicatorOf(Machine(there, speeds)).ring_type;
    if (ring_type != CommunicatorOf(asked.shape).ring_type) return std::nullopt;
  }
  Anchor anchor{.ranks = curve.ranks, .is_twin = curve.collective != asked.kind, .parts = {}};
  for (const auto& [size, time] : curve.fit) {
    const std::optional<Estimate> law =
        exact ? OnLinks({asked.kind, size, asked.path, asked.shape}, speeds, {})
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

NcclPricer::Correction NcclPricer::CorrectionOf(const Asked& asked, const Estimate& estimate) {
  Group& group = GroupOf(asked);
  if (!group.any) return {};
  for (std::size_t tier = 0; tier < group.tiers.size(); ++tier) {
    const bool like_these = tier < 2;
    auto& anchors = group.tiers[tier];
    if (!anchors) anchors = FindCurves(asked, like_these, /*exact=*/tier % 2 == 0);
    std::optional<Correction> correction = CorrectionBy(*anchors, asked, estimate);
    if (!correction) continue;
    if (!like_these) {
      correction->provenance = std::max(correction->provenance, Provenance::kTransferred);
    }
    return *correction;
  }
  return {};
}

std::optional<NcclPricer::Correction> NcclPricer::CorrectionBy(const std::vector<Anchor>& anchors,
                                                               const Asked& asked,
                                                               const Estimate& estimate) {
  const double size = std::max(1.0, static_cast<double>(asked.bytes.count()));
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
      const double ranks = std::log2(static_cast<double>(anchor.ranks) / asked.shape.ranks);
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

}  // namespace stepcast::cost
