#pragma once

#include <cstdint>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::cost {

// Returns the prices of the program on a device whose kernels run at the fraction `speed` of the
// usual rate (0 < speed <= 1). Prices of host, copies and links do not change.
Prices AtSpeed(const program::Program& program, Prices prices, double speed);

// Describes how devices of one type differ in speed. Chips hold their clock at different power, and
// a step over many devices waits for the slowest one. Over five large clusters, times differ by 8 %
// on average and by 22 % at most, without outliers (Sinha et al. 2022, arXiv 2208.11035).

// Returns the expected time of the slowest of `devices` devices, divided by the typical time. Times
// are normally distributed with standard deviation `variation`. The result is 1 + variation q,
// where q is the expected largest of that many standard normal numbers. By Blom's approximation, q
// is the quantile of (devices - 3/8) / (devices + 1/4). q is 0 for one device, 1.42 for 8, 2.59 for
// 128, and 3.03 for 512. Requires devices >= 1.
double SlowestDevice(double variation, std::int64_t devices);

// Returns time x factor, rounded up. Requires factor >= 1.
Time ScaledTime(Time time, double factor);

}  // namespace stepcast::cost
