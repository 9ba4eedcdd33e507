#pragma once

#include <cstdint>

#include "src/cost/prices.h"
#include "src/program/program.h"

// Time that ranks wait for one another because durations vary.
//
// Two kinds of variation have different effects on a synchronous step. Devices that differ
// permanently (KernelCosts::variation) differ in every kernel, so the slowest device sets the pace
// of the whole step (device_speed.h). Kernels that differ from launch to launch
// (KernelCosts::jitter) partly average out. If ranks run k launches of time t each before they
// synchronize, the sum has the standard deviation jitter t sqrt(k). n ranks that synchronize wait
// for the expected largest of n such sums:
//
//  jitter sqrt(sum of t^2) q(n),   q(n): of n standard normal numbers (device_speed.h)
//
// Relative to k t, this wait falls with the number of kernels between synchronizations. It is large
// with tensor parallelism, which synchronizes twice a layer, and small with data parallelism, which
// does so once a step. Ranks synchronize when kernels wait for the collective. A collective that
// overlaps kernels therefore counts the time since the last collective that kernels waited for.
//
// Collectives have their own jitter (LinkCosts::jitter). The ranks of a group see the same time,
// but a step waits for the slowest of the groups that run the same collective at once.
namespace stepcast::cost {

struct Jitter {
  double kernels = 0;      // standard deviation of kernels divided by the mean
  double collectives = 0;  // the same for collectives
  std::int64_t devices = 1;
};

// Adds waiting times to the price of each collective. The mean time for which its ranks wait for
// one another, over the step's calls, is added to its latency. The wait for its siblings is added
// to its work. Has no effect if both deviations are zero or if there is one device. Never shortens
// a time.
void AddJitter(const program::Program& program, const Jitter& jitter, Prices& prices);

}  // namespace stepcast::cost
