#include "src/calibrate/statistics.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace stepcast::calibrate {
Line FitLine(const std::vector<std::pair<double, double>>& points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double distance = points[j].first - points[i].first;
      if (distance != 0) slopes.push_back((points[j].second - points[i].second) / distance);
    }
  }
  STEPCAST_CHECK(!slopes.empty(), "to fit a line, at least two points are needed");
  Line line;
  line.slope = Median(std::move(slopes));
  std::vector<double> rests;
  for (const auto& [x, y] : points) rests.push_back(y - line.slope * x);
  line.at_zero = Median(std::move(rests));
  return line;
}

Line FitStartAndRate(const std::vector<std::pair<double, double>>& points) {
  STEPCAST_CHECK(points.size() >= 2,
                 "to fit a start time and a rate, at least two points are needed");
  std::vector<std::pair<double, double>> sorted = points;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t third = std::max<std::size_t>(sorted.size() / 3, 1);
  Line line;
  // Converges at once if the two parts are far apart, as over decades of sizes.
  for (int round = 0; round < 20; ++round) {
    std::vector<double> slopes;
    for (std::size_t i = sorted.size() - third; i < sorted.size(); ++i) {
      slopes.push_back((sorted[i].second - line.at_zero) / sorted[i].first);
    }
    line.slope = std::max(Median(std::move(slopes)), 0.0);
    std::vector<double> starts;
    for (std::size_t i = 0; i < third; ++i) {
      starts.push_back(sorted[i].second - line.slope * sorted[i].first);
    }
    line.at_zero = std::max(Median(std::move(starts)), 0.0);
  }
  return line;
}

std::vector<double> NonDecreasing(std::vector<double> values) {
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools) {
    if (pool.count == 1) {
      ++at;  // kept unchanged, though the mean of one value is exact anyway
      continue;
    }
    for (std::size_t i = 0; i < pool.count; ++i) values[at++] = pool.mean();
  }
  return values;
}

bool Enough(const Repetition& repetition, const Summary& so_far, Time spent) {
  if (so_far.count < repetition.least) return false;
  return so_far.count >= repetition.most || spent >= repetition.limit ||
         Uncertainty(so_far) <= repetition.uncertainty;
}

std::size_t NextBatch(const Repetition& repetition, const Summary& so_far, Time spent) {
  if (so_far.count < repetition.least) return repetition.least - so_far.count;
  const double ratio = Uncertainty(so_far) / repetition.uncertainty;
  // The uncertainty falls with the root of the count.
  const double wanted = static_cast<double>(so_far.count) * (ratio * ratio - 1);
  const double left = std::max((repetition.limit - spent).seconds(), 0.0);
  const double affordable = so_far.median > 0 ? left / so_far.median : wanted;
  const auto most = static_cast<double>(
      std::min(so_far.count, repetition.most - std::min(repetition.most, so_far.count)));
  return static_cast<std::size_t>(std::max(std::min({wanted, affordable, most}), 1.0));
}

namespace {

// Requires ascending values.
double QuantileOfSorted(const std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

double Quantile(std::vector<double> values, double q) {
  STEPCAST_CHECK(!values.empty() && q >= 0 && q <= 1, "a quantile needs at least one value");
  std::sort(values.begin(), values.end());
  return QuantileOfSorted(values, q);
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

Summary Summarise(const std::vector<double>& samples) {
  STEPCAST_CHECK(!samples.empty(), "a summary needs at least one value");
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  Summary summary;
  summary.count = sorted.size();
  summary.median = QuantileOfSorted(sorted, 0.5);
  summary.low = QuantileOfSorted(sorted, 0.1);
  summary.high = QuantileOfSorted(sorted, 0.9);
  for (double& value : sorted) value = std::abs(value - summary.median);
  const double deviation = Median(std::move(sorted));
  summary.spread = summary.median > 0 ? deviation / summary.median : 0;
  return summary;
}

double Uncertainty(const Summary& summary) {
  constexpr double kNormal = 1.253 * 1.483;
  return kNormal * summary.spread / std::sqrt(static_cast<double>(summary.count));
}

}  // namespace stepcast::calibrate
