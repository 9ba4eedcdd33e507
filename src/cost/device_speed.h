#pragma once

#include <cstdint>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of the program on a device whose kernels take 1 / speed as long (0 < speed <= 1). What
// its host, its copies and its links do takes the same time.
Prices AtSpeed(const program::Program& program, Prices prices, double speed);

// Devices of one type differ: the same chip holds its clock at another power, and a step of many
// ends with the slowest. Over five large clusters times differ by 8 % on average and by 22 % at
// most, outliers left out (Sinha et al. 2022, arXiv 2208.11035).

// The time of the slowest of `devices` over the typical time, with normally distributed times of
// standard deviation `variation`: 1 + variation q, where q is the expected largest of so many
// standard normal numbers, by Blom's approximation the quantile of (devices - 3/8) / (devices +
// 1/4). q is 0 of one device, 1.42 of 8, 2.59 of 128, 3.03 of 512. Requires devices >= 1.
double SlowestDevice(double variation, std::int64_t devices);

// time x factor, rounded up. Requires factor >= 1.
Time ScaledTime(Time time, double factor);

}  // namespace stepcast::cost
