#pragma once

#include <cstdint>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::cost {

// Returns the program's prices on a device whose kernels run at `speed` times the normal rate (0 <
// speed <= 1). Prices of host operations, copies and links do not change.
Prices AtSpeed(const program::Program& program, Prices prices, double speed);

// Speed differences between devices of one type. Chips need different power for the same clock, and
// a step waits for the slowest device. In five large clusters, times differ by 8 % on average and
// by at most 22 %, without outliers (Sinha et al. 2022, arXiv 2208.11035).

// Returns the expected time of the slowest of `devices` devices, divided by the typical time. Times
// are normally distributed with relative standard deviation `variation`. The result is 1 +
// variation x q. Here, q is the expected maximum of `devices` standard normal numbers: 0 for one
// device, 1.42 for 8, 3.03 for 512. By Blom's approximation, q is the normal quantile of (devices -
// 3/8) / (devices + 1/4). Requires devices >= 1.
double SlowestDevice(double variation, std::int64_t devices);

// Returns time x factor, rounded up. Requires factor >= 1.
Time ScaledTime(Time time, double factor);

}  // namespace stepcast::cost
