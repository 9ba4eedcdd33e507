#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/cost/exact_time.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

// The rate beyond the last point is taken from a point that is this many times smaller.
constexpr std::int64_t kApart = 4;

// A position on an axis: between `low` and `low + 1`, at fraction `part` in logarithms.
struct Place {
  std::size_t low = 0;
  double part = 0;
  double beyond = 1;  // the value over the axis' last, when it is larger
  Provenance provenance = Provenance::kMeasured;
};

Place PlaceOn(const std::vector<std::int64_t>& axis, std::int64_t value) {
  const auto above = std::lower_bound(axis.begin(), axis.end(), value);
  Place place;
  if (above == axis.end()) {
    place.low = axis.size() - 1;
    place.beyond = static_cast<double>(value) / static_cast<double>(axis.back());
    place.provenance = Provenance::kExtrapolated;
    return place;
  }
  place.low = static_cast<std::size_t>(above - axis.begin());
  if (*above == value) return place;
  place.provenance = Provenance::kExtrapolated;
  if (above == axis.begin()) return place;
  place.provenance = Provenance::kInterpolated;
  --place.low;
  const auto low = static_cast<double>(axis[place.low]);
  place.part =
      std::log2(static_cast<double>(value) / low) / std::log2(static_cast<double>(*above) / low);
  return place;
}

}  // namespace

MeasuredTime TimeFromCurve(const calibration::Curve& curve, Bytes bytes) {
  STEPCAST_CHECK(!curve.empty(), "a curve has points");
  const auto above = std::lower_bound(
      curve.begin(), curve.end(), bytes,
      [](const std::pair<Bytes, Time>& point, Bytes wanted) { return point.first < wanted; });
  if (above == curve.end()) {
    const auto& [last, time] = curve.back();
    // Points close to each other would show noise rather than a rate.
    for (auto point = std::next(curve.rbegin()); point != curve.rend(); ++point) {
      const auto& [before, time_before] = *point;
      if (before.count() > last.count() / kApart || time <= time_before) continue;
      return {
          time + ScaledTime(time - time_before, (bytes - last).count(), (last - before).count()),
          Provenance::kExtrapolated};
    }
    return {ScaledTime(time, bytes.count(), last.count()), Provenance::kExtrapolated};
  }
  if (above->first == bytes) return {above->second, Provenance::kMeasured};
  if (above == curve.begin()) return {above->second, Provenance::kExtrapolated};
  const auto& [low, low_time] = *std::prev(above);
  const auto& [high, high_time] = *above;
  // Both terms are positive, even where the curve falls slightly.
  const std::int64_t width = (high - low).count();
  return {ScaledTime(low_time, (high - bytes).count(), width) +
              ScaledTime(high_time, (bytes - low).count(), width),
          Provenance::kInterpolated};
}

MeasuredTime TimeFromSurface(const calibration::GemmSurface& surface, std::int64_t m,
                             std::int64_t n, std::int64_t k) {
  STEPCAST_CHECK(!surface.empty(), "a surface has points");
  const std::array<Place, 3> places = {PlaceOn(surface.m, m), PlaceOn(surface.n, n),
                                       PlaceOn(surface.k, k)};
  MeasuredTime measured;
  for (const Place& place : places) {
    measured.provenance = std::max(measured.provenance, place.provenance);
  }
  // t = m n k / throughput, so log t is the logarithm of the sizes, which is linear along each
  // axis, minus the interpolated logarithm of the throughput. That makes it trilinear, so
  // interpolating the times of the corners suffices.
  double log_time = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::array<std::size_t, 3> at{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const bool high = (corner >> axis & 1) != 0;
      weight *= high ? places[axis].part : 1 - places[axis].part;
      at[axis] = places[axis].low + (high ? 1 : 0);
    }
    if (weight == 0) continue;
    const Time time = surface.at(at[0], at[1], at[2]);
    if (weight == 1) {
      measured.time = time;
    } else {
      log_time += weight * std::log2(static_cast<double>(time.picoseconds()));
    }
  }
  double picoseconds = measured.time == Time() ? std::exp2(log_time)
                                               : static_cast<double>(measured.time.picoseconds());
  for (const Place& place : places) picoseconds *= place.beyond;
  const auto longest = static_cast<double>(kLongestTime.picoseconds());
  measured.time = picoseconds >= longest
                      ? kLongestTime
                      : Picoseconds(static_cast<std::int64_t>(std::ceil(picoseconds)));
  return measured;
}

Demand DemandOf(const MeasuredTime& measured, Time start_latency, bool latency_counts) {
  const Time latency = std::min(start_latency, measured.time);
  Demand demand;
  demand.latency = latency_counts ? latency : Time();
  demand.work = measured.time - latency;
  demand.provenance = measured.provenance;
  return demand;
}

}  // namespace stepcast::cost
