#include "src/cost/curve_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::cost {
namespace {

double X(const calibration::TimePoint& point) {
  return std::log(static_cast<double>(point.first.count()));
}
double Y(const calibration::TimePoint& point) { return std::log(point.second.microseconds()); }

double Secant(std::span<const calibration::TimePoint> points, std::size_t i) {
  return (Y(points[i + 1]) - Y(points[i])) / (X(points[i + 1]) - X(points[i]));
}

// The curve's slope at a point.
double Slope(std::span<const calibration::TimePoint> points, std::size_t i) {
  if (i == 0) return Secant(points, 0);
  if (i + 1 == points.size()) return Secant(points, i - 1);
  const double below = Secant(points, i - 1);
  const double above = Secant(points, i);
  if (below * above <= 0) return 0;
  const double h_below = X(points[i]) - X(points[i - 1]);
  const double h_above = X(points[i + 1]) - X(points[i]);
  const double w_below = 2 * h_above + h_below;
  const double w_above = h_above + 2 * h_below;
  return (w_below + w_above) / (w_below / below + w_above / above);
}

}  // namespace

CurveTime TimeOnCurve(std::span<const calibration::TimePoint> points, double bytes) {
  STEPCAST_CHECK(!points.empty() && bytes >= 0, "a curve has points, and sizes are not negative");
  const auto size = [](const calibration::TimePoint& point) {
    return static_cast<double>(point.first.count());
  };
  const auto at = std::lower_bound(
      points.begin(), points.end(), bytes,
      [&](const calibration::TimePoint& point, double b) { return size(point) < b; });
  if (at == points.end()) {
    const calibration::TimePoint& last = points.back();
    return {last.second.microseconds() * bytes / size(last), Provenance::kExtrapolated};
  }
  if (size(*at) == bytes) return {at->second.microseconds(), Provenance::kMeasured};
  if (at == points.begin()) return {at->second.microseconds(), Provenance::kExtrapolated};
  const auto i = static_cast<std::size_t>(at - points.begin()) - 1;
  const double h = X(points[i + 1]) - X(points[i]);
  const double u = (std::log(bytes) - X(points[i])) / h;
  // Hermite's basis on [0, 1].
  const double y = Y(points[i]) * (1 + 2 * u) * (1 - u) * (1 - u) +
                   h * Slope(points, i) * u * (1 - u) * (1 - u) +
                   Y(points[i + 1]) * u * u * (3 - 2 * u) +
                   h * Slope(points, i + 1) * u * u * (u - 1);
  return {std::exp(y), Provenance::kInterpolated};
}

}  // namespace stepcast::cost
