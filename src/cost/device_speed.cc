#include "src/cost/device_speed.h"

#include <cmath>
#include <cstddef>

#include "src/base/check.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

// Quantile of the standard normal distribution, by bisection; p in [0.5, 1).
double UpperQuantile(double p) {
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    const double below = 1 - std::erfc(middle / std::sqrt(2.0)) / 2;
    (below < p ? low : high) = middle;
  }
  return low;
}

}  // namespace

double SlowestDevice(double variation, std::int64_t devices) {
  STEPCAST_CHECK(devices >= 1, "there must be a device");
  if (variation == 0 || devices == 1) return 1;
  const auto count = static_cast<double>(devices);
  return 1 + variation * UpperQuantile((count - 0.375) / (count + 0.25));
}

Time ScaledTime(Time time, double factor) {
  STEPCAST_CHECK(factor >= 1, "the slowest device must not be faster than the typical device");
  if (factor == 1) return time;
  const double picoseconds = std::ceil(static_cast<double>(time.picoseconds()) * factor);
  if (picoseconds >= static_cast<double>(kLongestTime.picoseconds())) return kLongestTime;
  return Picoseconds(static_cast<std::int64_t>(picoseconds));
}

Prices AtSpeed(const program::Program& program, Prices prices, double speed) {
  for (std::size_t i = 0; i < prices.kernels.size(); ++i) {
    if (program.kernels[i].on_host) continue;
    Demand& demand = prices.kernels[i];
    demand.latency = ScaledTime(demand.latency, 1 / speed);
    demand.work = ScaledTime(demand.work, 1 / speed);
  }
  return prices;
}

}  // namespace stepcast::cost
