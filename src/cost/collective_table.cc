#include "src/cost/collective_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {

TableTime TimeFromTable(const calibration::CollectiveTable& table, Bytes bytes) {
  const auto& points = table.points;
  STEPCAST_CHECK(!points.empty(), "a table has points");
  const auto above = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const std::pair<Bytes, Time>& point, Bytes size) { return point.first < size; });
  if (above == points.end()) {
    const auto& [last_bytes, last_time] = points.back();
    return {ScaledTime(last_time, bytes.count(), last_bytes.count()), Provenance::kExtrapolated};
  }
  if (above->first == bytes) return {above->second, Provenance::kMeasured};
  if (above == points.begin()) return {above->second, Provenance::kExtrapolated};
  const auto& [low_bytes, low_time] = *std::prev(above);
  const auto& [high_bytes, high_time] = *above;
  // log2 is exact at powers of two, the usual sizes.
  const double part = std::log2(static_cast<double>(bytes.count()) / low_bytes.count()) /
                      std::log2(static_cast<double>(high_bytes.count()) / low_bytes.count());
  const double added = part * static_cast<double>((high_time - low_time).picoseconds());
  return {low_time + Picoseconds(static_cast<std::int64_t>(std::ceil(added))),
          Provenance::kInterpolated};
}

}  // namespace stepcast::cost
