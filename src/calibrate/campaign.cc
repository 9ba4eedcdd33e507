#include "src/calibrate/campaign.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stepcast::calibrate {
namespace {

double Rounded(double value, double digits) {
  if (value <= 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) + 1 - digits);
  return std::round(value / unit) * unit;
}

// The value of point i interpolated from its neighbors.
double Predicted(const std::vector<std::pair<std::int64_t, Summary>>& results, std::size_t i,
                 Between between) {
  const auto place = [&](std::size_t at) {
    const auto size = static_cast<double>(results[at].first);
    return between == Between::kLinear ? size : std::log(size);
  };
  const double part = (place(i) - place(i - 1)) / (place(i + 1) - place(i - 1));
  const double low = results[i - 1].second.median;
  const double high = results[i + 1].second.median;
  if (between == Between::kPowerLaw) return low * std::pow(high / low, part);
  return low + part * (high - low);
}

}  // namespace

Time RoundedTime(double seconds) {
  constexpr double kPicosecondsPerSecond = 1e12;
  const double picoseconds = Rounded(seconds * kPicosecondsPerSecond, 5);
  return Picoseconds(std::max<std::int64_t>(std::llround(picoseconds), 1));
}

double SlowDown(double beside, double alone) {
  return std::max(std::round(beside / alone * 1000) / 1000, 1.0);
}

std::vector<Time> TimesOf(const std::vector<std::pair<std::int64_t, Summary>>& results) {
  std::vector<double> medians;
  for (const auto& [size, summary] : results) medians.push_back(summary.median);
  std::vector<Time> times;
  for (const double median : NonDecreasing(std::move(medians))) {
    times.push_back(RoundedTime(median));
  }
  return times;
}

Fitted FitOf(const std::string& what,
             const std::vector<std::pair<std::int64_t, Summary>>& results) {
  std::vector<std::pair<double, double>> points;
  for (const auto& [size, summary] : results) {
    points.emplace_back(static_cast<double>(size), summary.median);
  }
  const Line line = FitStartAndRate(points);
  std::vector<double> residuals;
  for (const auto& [x, y] : points) {
    residuals.push_back(std::abs(line.at_zero + line.slope * x - y) / y);
  }
  return {what, points.size(), line.at_zero, line.slope, Median(std::move(residuals))};
}

void ResidualNotes::Add(const std::string& part,
                        const std::vector<std::pair<std::int64_t, Summary>>& results,
                        Between between) {
  Notes& notes = parts_[part];
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double median = results[i].second.median;
    notes.spreads.push_back(results[i].second.spread);
    if (i == 0 || i + 1 == results.size()) continue;
    notes.misses.push_back(std::abs(Predicted(results, i, between) - median) / median);
  }
}

void ResidualNotes::AddSurface(const std::string& part, const calibration::GemmSurface& surface,
                               const std::vector<Summary>& summaries) {
  Notes& notes = parts_[part];
  for (const Summary& summary : summaries) notes.spreads.push_back(summary.spread);
  const std::size_t along[] = {surface.n.size() * surface.k.size(), surface.k.size(), 1};
  const std::size_t sizes[] = {surface.m.size(), surface.n.size(), surface.k.size()};
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t at = i / along[axis] % sizes[axis];
      if (at == 0 || at + 1 == sizes[axis]) continue;
      // The axis's values are a constant factor apart.
      const double predicted =
          std::sqrt(summaries[i - along[axis]].median * summaries[i + along[axis]].median);
      notes.misses.push_back(std::abs(predicted / summaries[i].median - 1));
    }
  }
}

std::vector<calibration::Residual> ResidualNotes::Take() const {
  constexpr double kDigits = 3;
  std::vector<calibration::Residual> residuals;
  for (const auto& [part, notes] : parts_) {
    if (notes.spreads.empty()) continue;
    residuals.push_back({part, Rounded(Median(notes.spreads), kDigits),
                         notes.misses.empty() ? 0 : Rounded(Median(notes.misses), kDigits)});
  }
  return residuals;
}

Benchmark Reordered(Benchmark benchmark, const std::vector<std::size_t>& wanted) {
  std::vector<Probe> probes;
  for (const std::size_t i : wanted) probes.push_back(benchmark.probes[i]);
  benchmark.probes = std::move(probes);
  return benchmark;
}

namespace {

Effort QuickEffort() {
  return {.kernels = {.least = 5, .most = 30, .uncertainty = 0.02, .limit = Milliseconds(100)},
          .collectives = {.least = 7, .most = 60, .uncertainty = 0.02, .limit = Milliseconds(600)},
          .longest_kernel = Milliseconds(30),
          .kernel_budget = Seconds(2),
          .longest_collective = Seconds(10),
          .largest_bytes = std::int64_t{64} << 20,
          .largest_product = 4096};
}

Effort ThoroughEffort() {
  return {.kernels = {.least = 10, .most = 300, .uncertainty = 0.005, .limit = Seconds(1)},
          .collectives = {.least = 15, .most = 300, .uncertainty = 0.01, .limit = Seconds(3)},
          .longest_kernel = Milliseconds(500),
          .kernel_budget = Seconds(20),
          .longest_collective = Seconds(20),
          .largest_bytes = std::int64_t{512} << 20,
          .largest_product = 8192};
}

constexpr Time kQuickTime = Seconds(90);
constexpr Time kThoroughTime = Seconds(20 * 60);

}  // namespace

Time TimeOf(const Options& options) {
  if (options.time > Time()) return options.time;
  return options.quick ? kQuickTime : kThoroughTime;
}

bool IsCoarse(const Options& options) {
  return options.quick || TimeOf(options) < Seconds(10 * 60);
}

Campaign::Campaign(Session& session, const Options& options, std::vector<int> node_of_rank)
    : session(session),
      options(options),
      node_of_rank(std::move(node_of_rank)),
      effort(IsCoarse(options) ? QuickEffort() : ThoroughEffort()) {}

bool Campaign::Wants(Part part) const {
  return options.parts.empty() ||
         std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
}

bool Campaign::WantsKernels() const {
  return Wants(Part::kLaunch) || Wants(Part::kMemory) || Wants(Part::kGemm) ||
         Wants(Part::kAttention) || Wants(Part::kOptimizer);
}

std::vector<int> Campaign::AllRanks() const {
  std::vector<int> all;
  for (int rank = 0; rank < ranks(); ++rank) all.push_back(rank);
  return all;
}

std::vector<DataType> Campaign::Types() const {
  if (!options.types.empty()) return options.types;
  return {DataType::kFp32, DataType::kBf16};
}

calibration::KernelCosts& Campaign::kernels() {
  if (!outcome.profile.kernels) outcome.profile.kernels.emplace();
  return *outcome.profile.kernels;
}

calibration::Curve Campaign::CurveOf(const std::string& part, const std::string& what,
                                     const Results& results, Between between) {
  residuals.Add(part, results, between);
  if (results.size() > 1) outcome.fits.push_back(FitOf(what, results));
  calibration::Curve curve;
  const std::vector<Time> times = TimesOf(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    curve.emplace_back(Bytes(results[i].first), times[i]);
  }
  return curve;
}

std::vector<std::int64_t> PowersOfTwo(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = from; value <= to; value *= 2) values.push_back(value);
  return values;
}

}  // namespace stepcast::calibrate
