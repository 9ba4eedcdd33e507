#pragma once

#include <cstdint>

#include "src/cost/prices.h"
#include "src/program/program.h"

// The time that ranks wait for one another because durations vary.
//
// Two kinds of variation have different effects on a synchronous step. If devices differ
// permanently (KernelCosts::variation), every kernel of the slowest device is slower, and the step
// takes the time of this device (device_speed.h). If kernels differ from launch to launch
// (KernelCosts::jitter), the differences partly average out. If ranks run k launches of time t each
// before they synchronize, the sum has the standard deviation jitter t sqrt(k). n ranks that
// synchronize wait for the expected maximum of n sums:
//
//  jitter sqrt(sum of t^2) q(n)
//
// q(n) is the expected maximum of n standard normal numbers (device_speed.h).
//
// Relative to k t, this wait decreases with the number of kernels between synchronizations. The
// wait is large with tensor parallelism, which synchronizes twice per layer, and small with data
// parallelism, which synchronizes once per step. Ranks synchronize when kernels wait for a
// collective. For a collective, the sum therefore starts at the last collective that kernels waited
// for.
//
// Collectives have a separate jitter (LinkCosts::jitter). The ranks of a group see the same time,
// but a step waits for the slowest of the groups that run the same collective at once.
namespace stepcast::cost {

struct Jitter {
  double kernels = 0;      // standard deviation of kernel times divided by the mean
  double collectives = 0;  // standard deviation of collective times divided by the mean
  std::int64_t devices = 1;
};

// Adds waiting times to the price of each collective. The mean time that its ranks wait for one
// another, over the step's calls, is added to the latency. The wait for sibling groups is added to
// the work. Has no effect if both deviations are zero or there is one device. Never shortens a
// time.
void AddJitter(const program::Program& program, const Jitter& jitter, Prices& prices);

}  // namespace stepcast::cost
