#include "src/calibrate/profile_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/calibrate/calibrate.h"
#include "src/calibrate/fits.h"

namespace stepcast::calibrate {
namespace {

double Rounded(double value, double digits) {
  if (value <= 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) + 1 - digits);
  return std::round(value / unit) * unit;
}

// What the neighbours of point i say about it.
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
      // The axis' values are a constant factor apart.
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

}  // namespace stepcast::calibrate
