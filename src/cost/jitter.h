#pragma once

#include <cstdint>

#include "src/cost/prices.h"
#include "src/program/program.h"

// The time that ranks wait for one another because durations vary.
//
// Two kinds of variation affect a synchronous step differently:
//   - If devices differ permanently (KernelCosts::variation), the step takes the time of the
//     slowest device (device_speed.h).
//   - If kernels differ from launch to launch (KernelCosts::jitter), the differences partly average
//     out. The time of k launches of time t each has the standard deviation jitter x t x sqrt(k). n
//     ranks that then synchronize wait for the expected maximum of n such sums:
//
//  jitter x sqrt(sum of t^2) x q(n)
//
// q(n) is the expected maximum of n standard normal numbers (device_speed.h).
//
// Relative to k x t, this wait decreases with the number of kernels between synchronizations. The
// wait is large with tensor parallelism (two synchronizations per layer) and small with data
// parallelism (one per step). Ranks synchronize when kernels wait for a collective, so the sum
// starts at the previous such collective.
//
// Collectives have a separate jitter (LinkCosts::jitter). A collective's time is equal on all ranks
// of its group. If several groups run the same collective, the step waits for the slowest group.
namespace stepcast::cost {

struct Jitter {
  double kernels = 0;      // standard deviation of kernel times divided by the mean
  double collectives = 0;  // standard deviation of collective times divided by the mean
  std::int64_t devices = 1;
};

// Adds waiting times to the price of each collective. The collective's latency increases by the
// time that its ranks wait for one another, as the mean over the step's calls. The collective's
// work increases by the wait for sibling groups. Has no effect if both deviations are zero or there
// is one device.
void AddJitter(const program::Program& program, const Jitter& jitter, Prices& prices);

}  // namespace stepcast::cost
