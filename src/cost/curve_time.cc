#include "src/cost/curve_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::cost {

CurveFactor FactorOnCurve(std::span<const calibration::TimePoint> points,
                          std::span<const double> law, double bytes) {
  STEPCAST_CHECK(!points.empty() && points.size() == law.size() && bytes >= 0,
                 "a curve needs at least one point, a modelled time for each point, and sizes of "
                 "zero or more");
  const auto size = [](const calibration::TimePoint& point) {
    return static_cast<double>(point.first.count());
  };
  const auto factor = [&](std::size_t i) { return points[i].second.microseconds() / law[i]; };
  const auto at = std::lower_bound(
      points.begin(), points.end(), bytes,
      [&](const calibration::TimePoint& point, double b) { return size(point) < b; });
  if (at == points.end()) return {factor(points.size() - 1), Provenance::kExtrapolated};
  const auto above = static_cast<std::size_t>(at - points.begin());
  if (size(*at) == bytes) return {factor(above), Provenance::kMeasured};
  if (above == 0) return {factor(0), Provenance::kExtrapolated};
  const double part = std::log(bytes / size(points[above - 1])) /
                      std::log(size(points[above]) / size(points[above - 1]));
  return {std::exp(std::log(factor(above - 1)) * (1 - part) + std::log(factor(above)) * part),
          Provenance::kInterpolated};
}

}  // namespace stepcast::cost
