#include "src/calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"

namespace stepcast::calibrate {
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
  STEPCAST_CHECK(!values.empty() && q >= 0 && q <= 1, "a quantile of something");
  std::sort(values.begin(), values.end());
  return QuantileOfSorted(values, q);
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

Summary Summarise(const std::vector<double>& samples) {
  STEPCAST_CHECK(!samples.empty(), "a summary of something");
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
