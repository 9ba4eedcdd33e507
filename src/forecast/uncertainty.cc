#include "src/forecast/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "src/forecast/intervals.h"
#include "src/program/description.h"

namespace stepcast::forecast {
namespace {

using program::Opcode;

constexpr std::string_view kStep = "step";
constexpr std::string_view kSource = "source";
constexpr std::string_view kMemory = "memory";

Part PartOf(KernelKind kind) {
  switch (kind) {
    case KernelKind::kGemm:
      return Part::kGemm;
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      return Part::kAttention;
    case KernelKind::kMemoryBound:
      return Part::kMemoryBound;
    case KernelKind::kOptimizer:
      return Part::kOptimizer;
    case KernelKind::kGiven:
      return Part::kGiven;
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      return Part::kScan;
  }
  return Part::kMemoryBound;
}

Part PartOf(cost::Provenance provenance) {
  switch (provenance) {
    case cost::Provenance::kGiven:
      return Part::kGiven;
    case cost::Provenance::kMeasured:
    case cost::Provenance::kInterpolated:
      return Part::kCollective;
    case cost::Provenance::kExtrapolated:
    case cost::Provenance::kTransferred:
    case cost::Provenance::kModelled:
      return Part::kCollectiveLaw;
  }
  return Part::kCollectiveLaw;
}

std::optional<double> DeviationOf(std::string_view of,
                                  const std::vector<calibration::Residual>& residuals) {
  for (const calibration::Residual& residual : residuals) {
    if (residual.of == of) return kDeviations * std::hypot(residual.spread, residual.interpolation);
  }
  return std::nullopt;
}

}  // namespace

std::string_view ResidualOf(Part part) {
  constexpr std::array<std::string_view, kParts> kNames = {
      "gemm",   "attention", "memory_bound", "optimizer", "collectives", "collective_law",
      "launch", "",          "scan"};
  return kNames[static_cast<std::size_t>(part)];
}

PartTimes ExposedTimes(const program::Program& program, const program::Timeline& timeline,
                       const cost::Prices& prices, Time start, Time end,
                       const KernelSpans& kernels) {
  PartTimes times{};
  const auto part_of = [&](program::Index instruction) {
    return static_cast<std::size_t>(
        PartOf(program.kernels[program.step[instruction].operand].kind));
  };
  // As in a step's breakdown, kernels have priority over collectives. Among concurrent kernels this
  // order decides:
  constexpr Part kOrder[] = {Part::kGiven, Part::kGemm,      Part::kAttention,
                             Part::kScan,  Part::kOptimizer, Part::kMemoryBound};
  for (const KernelCluster& cluster : kernels.clusters) {
    if (cluster.single()) {
      const KernelSpan& only = kernels.spans[cluster.first];
      times[part_of(only.instruction)] += only.end - only.start;
      continue;
    }
    std::array<Intervals, kParts> busy;
    for (std::size_t i = cluster.first; i < cluster.last; ++i) {
      const KernelSpan& span = kernels.spans[i];
      Append({span.start, span.end}, busy[part_of(span.instruction)]);
    }
    Intervals left{{cluster.start, cluster.end}};
    for (const Part part : kOrder) {
      const auto index = static_cast<std::size_t>(part);
      if (busy[index].empty()) continue;
      const Intervals own = Union(std::move(busy[index]));
      times[index] += Length(Intersection(left, own));
      left = Difference(left, own);
    }
  }

  std::array<Intervals, kParts> busy;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.end <= start || record.start >= end) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    if (program::CommunicatorOf(program, instruction) == program::kNone) continue;
    // All messages of an exchange have the same provenance.
    const Part part = PartOf(instruction.opcode == Opcode::kCollective
                                 ? prices.collectives[instruction.operand].demand.provenance
                                 : prices.exchanges[instruction.operand].front().demand.provenance);
    Append({std::max(record.start, start), std::min(record.end, end)},
           busy[static_cast<std::size_t>(part)]);
  }
  Intervals left = kernels.gaps;
  for (const Part part : {Part::kGiven, Part::kCollective, Part::kCollectiveLaw}) {
    const auto index = static_cast<std::size_t>(part);
    const Intervals own = Union(std::move(busy[index]));
    times[index] += Length(Intersection(left, own));
    left = Difference(left, own);
  }
  times[static_cast<std::size_t>(Part::kIdle)] = Length(left);
  return times;
}

std::optional<TimeRange> StepTimeRange(const PartTimes& exposed, Time step_time,
                                       const std::vector<calibration::Residual>& residuals,
                                       double slowest_device) {
  std::array<std::optional<double>, kParts> known;
  std::optional<double> largest;
  for (std::size_t i = 0; i < kParts; ++i) {
    known[i] = DeviationOf(ResidualOf(static_cast<Part>(i)), residuals);
    if (known[i]) largest = std::max(largest.value_or(0), *known[i]);
  }
  const std::optional<double> step = DeviationOf(kStep, residuals);
  const std::optional<double> source = DeviationOf(kSource, residuals);
  if (!largest && !step && !source) return std::nullopt;
  const double unknown = step || source ? 0 : *largest;
  known[static_cast<std::size_t>(Part::kGiven)] = 0;
  std::optional<double>& scan = known[static_cast<std::size_t>(Part::kScan)];
  scan = std::max(scan.value_or(kScanDeviation), unknown);
  const double whole =
      std::hypot(step.value_or(0), source.value_or(0), slowest_device / kNineOfTen);
  double variance = std::pow(whole * static_cast<double>(step_time.picoseconds()), 2);
  for (std::size_t i = 0; i < kParts; ++i) {
    variance +=
        std::pow(known[i].value_or(unknown) * static_cast<double>(exposed[i].picoseconds()), 2);
  }
  const Time half = Picoseconds(std::llround(kNineOfTen * std::sqrt(variance)));
  // No step takes no time: beyond half of the step, the lower end falls as 1 / half.
  const Time low = half + half <= step_time
                       ? step_time - half
                       : Picoseconds(std::llround(static_cast<double>(step_time.picoseconds()) *
                                                  (step_time / (half * 4))));
  return TimeRange{low, step_time + half};
}

std::optional<BytesRange> MemoryRange(Bytes peak,
                                      const std::vector<calibration::Residual>& residuals) {
  const std::optional<double> deviation = DeviationOf(kMemory, residuals);
  if (!deviation) return std::nullopt;
  const Bytes half(std::llround(kNineOfTen * *deviation * static_cast<double>(peak.count())));
  return BytesRange{std::max(Bytes(), peak - half), peak + half};
}

namespace {

// Median relative deviation from the forecasts of published peaks that check forecasts and fill
// half to four fifths of their device (docs/uncertainty.md, "Does it fit"). Fuller devices are
// published only if the job happened to fit.
constexpr double kMedianOfMemory = -0.001;

// The scale of a Cauchy distribution with 90 % of its values within MemoryRange of its median. Half
// of its values lie within one scale.
double ScaleOfMemory(const std::vector<calibration::Residual>& residuals) {
  constexpr double kScalesOfNineOfTen = 6.313751514675043;  // tan(0.45 pi)
  const double deviation = DeviationOf(kMemory, residuals).value_or(kDeviations * kMemoryResidual);
  return kNineOfTen * deviation / kScalesOfNineOfTen;
}

}  // namespace

double FitProbability(Bytes available, Bytes reserved,
                      const std::vector<calibration::Residual>& residuals) {
  if (reserved <= Bytes()) return 1;
  const double part =
      static_cast<double>((available - reserved).count()) / static_cast<double>(reserved.count());
  return 0.5 + std::atan2(part - kMedianOfMemory, ScaleOfMemory(residuals)) / std::numbers::pi;
}

double MemoryError(const std::vector<calibration::Residual>& residuals) {
  const double scales = std::tan((kLikelyFit - 0.5) * std::numbers::pi);
  return std::max(0.0, kMedianOfMemory + scales * ScaleOfMemory(residuals));
}

}  // namespace stepcast::forecast
