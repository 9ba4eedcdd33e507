#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "src/base/check.h"
#include "src/calibrate/session.h"

namespace stepcast::calibrate {
namespace {

using Size = std::int64_t;

// Linear between measurements; beyond them, with the last rate. Because of the start-up cost that
// is too much, which leaves time over.
double Expected(const MeasuredSizes& measured, Size size) {
  const auto above = std::lower_bound(
      measured.begin(), measured.end(), size,
      [](const std::pair<Size, double>& point, Size wanted) { return point.first < wanted; });
  const auto at = static_cast<double>(size);
  if (above == measured.end()) {
    return measured.back().second * at / static_cast<double>(measured.back().first);
  }
  if (above == measured.begin()) return above->second;
  const auto& [low, low_time] = *std::prev(above);
  const auto& [high, high_time] = *above;
  const double part = (at - static_cast<double>(low)) / static_cast<double>(high - low);
  return low_time + part * (high_time - low_time);
}

double Cost(double seconds, std::size_t least, bool briefly) {
  const double runs = static_cast<double>(LeastRuns(least, seconds, briefly));
  return seconds * (runs + (seconds < kNeedsNoWarmup ? 1 : 0));
}

// The distance between a size's measured neighbors, and its distance from the nearer one, both as
// logarithms.
std::pair<double, double> Gap(const MeasuredSizes& measured, Size size) {
  const auto above = std::lower_bound(
      measured.begin(), measured.end(), size,
      [](const std::pair<Size, double>& point, Size wanted) { return point.first < wanted; });
  const double at = std::log(static_cast<double>(size));
  const double low = std::log(static_cast<double>(std::prev(above)->first));
  const double high = std::log(static_cast<double>(above->first));
  return {high - low, std::min(at - low, high - at)};
}

}  // namespace

std::size_t LeastRuns(std::size_t least, double seconds, bool briefly) {
  if (seconds > 1) return std::min<std::size_t>(least, briefly ? 1 : 2);
  if (seconds > 0.2) return std::min<std::size_t>(least, briefly ? 2 : 3);
  return least;
}

NextSizes Next(const SizePlan& plan, std::size_t least, const MeasuredSizes& measured,
               double left) {
  STEPCAST_CHECK(plan.first > 0, "the number of sizes that are measured first must be positive");
  NextSizes next;
  if (measured.empty()) {
    const std::size_t count = std::min(plan.first, plan.sizes.size());
    next.sizes.assign(plan.sizes.begin(), plan.sizes.begin() + static_cast<std::ptrdiff_t>(count));
    return next;
  }
  struct Candidate {
    Size size;
    double expected;
  };
  std::vector<Candidate> candidates;
  for (const Size size : plan.sizes) {
    const bool known = std::any_of(measured.begin(), measured.end(),
                                   [&](const auto& point) { return point.first == size; });
    if (!known) candidates.push_back({size, Expected(measured, size)});
  }
  // The largest size for which all smaller ones fit too, at least briefly.
  const Size largest_known = measured.back().first;
  std::optional<Candidate> top;
  double all = 0;
  double all_briefly = 0;
  for (const Candidate& candidate : candidates) {
    all_briefly += plan.program + Cost(candidate.expected, least, true);
    const bool fits = all_briefly <= left && candidate.expected <= plan.longest;
    if (candidate.size > largest_known && !fits) break;
    all += plan.program + Cost(candidate.expected, least, false);
    if (candidate.size > largest_known) top = candidate;
  }
  next.briefly = all > left;
  if (top) {
    next.sizes = {top->size};
    next.expected = top->expected;
    return next;
  }
  std::optional<Candidate> best;
  std::pair<double, double> best_gap;
  for (const Candidate& candidate : candidates) {
    if (candidate.size > largest_known) break;
    if (plan.program + Cost(candidate.expected, least, next.briefly) > left) continue;
    const std::pair<double, double> gap = Gap(measured, candidate.size);
    // Sizes are rounded, so gaps that differ by less than this are equal.
    constexpr double kSame = 0.01;
    const bool better =
        !best || gap.first > best_gap.first + kSame ||
        (gap.first > best_gap.first - kSame && gap.second > best_gap.second + kSame);
    if (!better) continue;
    best = candidate;
    best_gap = gap;
  }
  if (best) {
    next.sizes = {best->size};
    next.expected = best->expected;
  }
  return next;
}

}  // namespace stepcast::calibrate
