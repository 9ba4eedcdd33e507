#pragma once

#include <cstdint>

#include "src/cost/prices.h"
#include "src/program/program.h"

// What ranks wait for one another because nothing takes equally long every time.
//
// Two kinds of unequal times cost a synchronous step two different things. Devices that differ for
// good (KernelCosts::variation) differ in every kernel: the slowest of all sets the pace of the
// whole step (device_speed.h). Kernels that differ from launch to launch (KernelCosts::jitter)
// even out: of k launches of time t each that ranks run before they meet, the sum has the standard
// deviation jitter t sqrt(k), and n ranks that meet wait for the expected largest of n such sums,
//
//   jitter sqrt(sum of t^2) q(n),   q(n): of n standard normal numbers (device_speed.h)
//
// which beside their k t is the less, the more kernels lie between two meetings: much with tensor
// parallelism, which meets twice a layer, little with data parallelism, which meets once a step.
// Ranks have met when kernels wait for the collective, so one that runs beside kernels counts the
// time since the last one that they waited for.
//
// Collectives have a jitter of their own (LinkCosts::jitter). The ranks of a group see the same
// time, but a step waits for the slowest of the groups that run the same at once.
namespace stepcast::cost {

struct Jitter {
  double kernels = 0;      // standard deviations over the mean
  double collectives = 0;  //
  std::int64_t devices = 1;
};

// Adds to each collective what its ranks wait for one another, on average over the step's calls of
// it, as latency, and to its work what its siblings do. Nothing changes where both are zero, or
// with one device. Never shortens anything.
void AddJitter(const program::Program& program, const Jitter& jitter, Prices& prices);

}  // namespace stepcast::cost
