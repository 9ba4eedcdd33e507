#include "src/cost/attention_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

#include "src/base/check.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

struct Point {
  std::int64_t size = 0;
  double time = 0;  // picoseconds
  Provenance provenance = Provenance::kMeasured;
};

// At `size`, between the points that ascend; beyond them that of the end.
Point Between(const std::vector<Point>& points, std::int64_t size) {
  const auto above =
      std::lower_bound(points.begin(), points.end(), size,
                       [](const Point& point, std::int64_t wanted) { return point.size < wanted; });
  if (above != points.end() && above->size == size) return *above;
  if (above == points.begin() || above == points.end()) {
    Point end = above == points.end() ? points.back() : points.front();
    end.provenance = Provenance::kExtrapolated;
    return end;
  }
  const Point& low = *std::prev(above);
  const double part = std::log(static_cast<double>(size) / static_cast<double>(low.size)) /
                      std::log(static_cast<double>(above->size) / static_cast<double>(low.size));
  return {.size = size,
          .time = low.time * std::pow(above->time / low.time, part),
          .provenance = std::max({low.provenance, above->provenance, Provenance::kInterpolated})};
}

double Ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

Point AtSequence(const calibration::AttentionCurve& curve, std::int64_t sequence) {
  std::vector<Point> points;
  for (const auto& [length, time] : curve.points) {
    points.push_back({.size = length, .time = static_cast<double>(time.picoseconds())});
  }
  Point point = Between(points, sequence);
  const double beyond = std::max(1.0, Ratio(sequence, points.back().size));
  point.time *= beyond * beyond;
  point.size = curve.heads;
  return point;
}

// Of the curves of one head size.
Point AtHeads(const std::vector<Point>& by_heads, const Kernel& kernel, int multiprocessors) {
  Point point = Between(by_heads, kernel.batch);
  const auto filled = [&](std::int64_t heads) {
    return std::max(Ratio(heads * kernel.m, kQueryRows), static_cast<double>(multiprocessors));
  };
  if (kernel.batch < by_heads.front().size || kernel.batch > by_heads.back().size) {
    point.time *= filled(kernel.batch) / filled(point.size);
  }
  return point;
}

}  // namespace

MeasuredTime TimeOfAttention(const calibration::AttentionSurface& surface, const Kernel& kernel,
                             int multiprocessors) {
  STEPCAST_CHECK(
      !surface.empty() && kernel.batch > 0 && kernel.m > 0 && kernel.n > 0 && kernel.k > 0,
      "attention has sizes, and a surface points");
  // A square of as many pairs of a query and a key.
  const std::int64_t length =
      kernel.causal ? kernel.m
                    : static_cast<std::int64_t>(std::llround(std::sqrt(
                          static_cast<double>(kernel.m) * static_cast<double>(kernel.n))));
  std::vector<Point> by_head_size;
  for (auto curve = surface.begin(); curve != surface.end();) {
    const std::int64_t head_size = curve->head_size;
    std::vector<Point> by_heads;
    for (; curve != surface.end() && curve->head_size == head_size; ++curve) {
      by_heads.push_back(AtSequence(*curve, length));
    }
    by_head_size.push_back(AtHeads(by_heads, kernel, multiprocessors));
    by_head_size.back().size = head_size;
  }
  Point point = Between(by_head_size, kernel.k);
  point.time *= std::max(1.0, Ratio(kernel.k, by_head_size.back().size));
  if (!kernel.causal) {
    point.time *= 2;
    point.provenance = std::max(point.provenance, Provenance::kInterpolated);
  } else if (kernel.n < kernel.m) {
    const double hidden = Ratio(kernel.m - kernel.n, kernel.m);
    point.time *= 1 - hidden * hidden;
    point.provenance = std::max(point.provenance, Provenance::kInterpolated);
  }
  const auto longest = static_cast<double>(kLongestTime.picoseconds());
  return {point.time >= longest ? kLongestTime
                                : Picoseconds(static_cast<std::int64_t>(std::ceil(point.time))),
          point.provenance};
}

}  // namespace stepcast::cost
