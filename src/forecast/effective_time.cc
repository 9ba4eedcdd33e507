#include "src/forecast/effective_time.h"

#include <algorithm>
#include <cmath>

namespace stepcast::forecast {

TimeShares SharesOf(double interval, const Failures& failures, const CheckpointCost& cost) {
  const double cycle = std::max(interval + cost.blocking, cost.background);
  const double rate = failures.rate;
  // Of the expected time of a cycle, relative to its time without failures.
  const double longer = rate > 0 ? std::exp(rate * (failures.recovery + cost.background)) *
                                       std::expm1(rate * cycle) / (rate * cycle)
                                 : 1;
  TimeShares shares;
  shares.work = interval / (cycle * longer);
  shares.saving = (cycle - interval) / (cycle * longer);
  // A failure begins a recovery that lasts until it is over or the next failure comes.
  shares.recovery = -std::expm1(-rate * failures.recovery);
  shares.rework = std::max(0.0, 1 - shares.work - shares.saving - shares.recovery);
  return shares;
}

double BestInterval(const Failures& failures, const CheckpointCost& cost, double longest) {
  // The share of work is the largest where 1 - x = exp(-x - d), with x and d the interval and the
  // cost in mean times between failures; the difference of the two sides has one root in [0, 1].
  const double d = failures.rate * cost.blocking;
  double low = 0, high = 1;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double x = (low + high) / 2;
    (1 - x > std::exp(-x - d) ? low : high) = x;
  }
  const double best = failures.rate > 0 ? high / failures.rate : longest;
  return std::min(longest, std::max(best, cost.background - cost.blocking));
}

double YoungInterval(const Failures& failures, const CheckpointCost& cost) {
  return std::sqrt(2 * cost.blocking / failures.rate);
}

double DalyInterval(const Failures& failures, const CheckpointCost& cost) {
  const double mean = 1 / failures.rate;
  const double part = cost.blocking / (2 * mean);
  if (part >= 1) return mean;
  return YoungInterval(failures, cost) * (1 + std::sqrt(part) / 3 + part / 9) - cost.blocking;
}

}  // namespace stepcast::forecast
