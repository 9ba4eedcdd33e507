#include "src/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/data_type.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

struct Point {
  std::int64_t size = 0;
  double time = 0;  // picoseconds
  Provenance provenance = Provenance::kMeasured;
};

// The value at `size`, interpolated between ascending points; beyond the ends, that of the end.
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

// Interpolates over heads among the curves of one head size.
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
      "attention needs sizes, and its table of times needs at least one point");
  // A square with the same number of pairs of query and key.
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

namespace {

constexpr std::int64_t kWidest = 16;  // bytes
constexpr std::int64_t kNarrowest = 2;

// A matrix: the dimension that its rows span, and the dimension that counts the rows.
struct Matrix {
  std::int64_t Kernel::*row;
  std::int64_t Kernel::*rows;
};

std::array<Matrix, 2> OperandsOf(ProductLayout layout) {
  switch (layout) {
    case ProductLayout::kForward:
      return {{{&Kernel::k, &Kernel::m}, {&Kernel::k, &Kernel::n}}};
    case ProductLayout::kInputGradient:
      return {{{&Kernel::k, &Kernel::m}, {&Kernel::n, &Kernel::k}}};
    case ProductLayout::kWeightGradient:
      return {{{&Kernel::m, &Kernel::k}, {&Kernel::n, &Kernel::k}}};
  }
  return {};
}

// The largest load size in bytes that divides a row.
std::int64_t LoadOf(std::int64_t row, std::int64_t element) {
  std::int64_t load = kWidest;
  while (load > kNarrowest && row * element % load != 0) load /= 2;
  return load;
}

// Zero if unknown.
double BatchedRate(DataType type, const calibration::KernelCosts& costs, Version torch) {
  for (const calibration::UnalignedBatches& batches : costs.batched_unaligned) {
    if (torch >= batches.torch) return batches.rate[static_cast<std::size_t>(type)];
  }
  return 0;
}

// For operands whose rows are divisible by `load` bytes.
double OperandRate(std::int64_t load, const calibration::KernelCosts& costs) {
  if (load == kWidest || costs.gemm_unaligned == 0) return 1;
  if (load > kNarrowest && costs.gemm_unaligned_even != 0) return costs.gemm_unaligned_even;
  return std::pow(costs.gemm_unaligned,
                  std::log2(static_cast<double>(kWidest) / static_cast<double>(load)) /
                      std::log2(static_cast<double>(kWidest) / kNarrowest));
}

// For a result whose rows are divisible by `load` bytes.
double ResultRate(std::int64_t load, const calibration::KernelCosts& costs) {
  if (load == kWidest || costs.gemm_unaligned_result == 0) return 1;
  if (load == kNarrowest) return costs.gemm_unaligned_result;
  return costs.gemm_unaligned_even == 0 ? 1 : costs.gemm_unaligned_even;
}

}  // namespace

double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch) {
  if (product.data_type == DataType::kFp32) return 1;
  const std::int64_t element = SizeOf(product.data_type);
  std::int64_t load = kWidest;
  for (const Matrix& operand : OperandsOf(product.layout)) {
    load = std::min(load, LoadOf(product.*operand.row, element));
  }
  if (load < kWidest && product.batch > 1) {
    const double batched = BatchedRate(product.data_type, costs, torch);
    if (batched != 0) return batched;
  }
  const std::int64_t sum = product.adds_to_fp32 ? SizeOf(DataType::kFp32) : element;
  return std::min(OperandRate(load, costs), ResultRate(LoadOf(product.n, sum), costs));
}

PaddedProduct Padded(const Kernel& product) {
  const std::int64_t element = SizeOf(product.data_type);
  const std::int64_t multiple = kWidest / element;
  PaddedProduct padded{.product = product, .copied = {}};
  const auto fill = [&](std::int64_t& row) { row = (row + multiple - 1) / multiple * multiple; };
  const auto operands = OperandsOf(product.layout);
  for (const Matrix& operand : operands) fill(padded.product.*operand.row);
  fill(padded.product.n);
  for (const Matrix& operand : operands) {
    const std::int64_t before = product.*operand.row * product.*operand.rows;
    const std::int64_t after = padded.product.*operand.row * padded.product.*operand.rows;
    if (after != before) padded.copied += Bytes(product.batch * element * (before + after));
  }
  padded.product.flops = 2 * product.batch * padded.product.m * padded.product.n * padded.product.k;
  return padded;
}

double SustainedClock(const calibration::PowerDraw& power, double limit_watts) {
  if (power.products == 0 || limit_watts == 0) return 1;
  const double part = (limit_watts - power.idle) / power.products;
  return part >= 1 ? 1 : std::cbrt(std::max(part, 1e-3));
}

double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw) {
  const bool known = power.products != 0 && power.memory != 0 && limit_watts != 0;
  if (!known || draw.at_best <= 0 || power.memory >= limit_watts) return limit_watts;
  // P B is the power that products draw at full clock, as energy: the mean is at the limit where P
  // B c^3 = (L - W) M c + (L - idle) A.
  const double cubic = power.products * draw.at_best;
  const double spared = (limit_watts - power.memory) * draw.other;
  const double allowed =
      std::max(limit_watts - power.idle, 1e-3 * power.products) * draw.arithmetic;
  double clock = 1;
  if (cubic > spared + allowed) {
    // Newton's method on a convex function, started above the root: it never passes the root.
    for (;;) {
      const double above = cubic * clock * clock * clock - spared * clock - allowed;
      const double next = clock - above / (3 * cubic * clock * clock - spared);
      if (!(next < clock)) break;
      clock = next;
    }
  }
  return limit_watts + spared * clock / draw.arithmetic;
}

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
  STEPCAST_CHECK(!curve.empty(), "a curve must have points");
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
  STEPCAST_CHECK(!surface.empty(), "a surface must have points");
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
