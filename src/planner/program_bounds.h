#pragma once

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/planner/short_program.h"
#include "src/program/program.h"

// Bounds of what a simulation of a step program says, in one pass over its instructions. What is
// repeated in it counts as often, and is gone through until it does what it did before.
namespace stepcast::planner {

// The interval between two step ends where nothing gets in anything's way. Every operation takes at
// least what it takes alone, and streams, communicators, events and the host are sums and maxima of
// such times: nothing that takes longer lets anything come earlier, so that no simulation repeats
// its steps faster. `counts_collectives`: false where the network is simulated, for which prices of
// collectives are no bound; they then take no time.
Time UndisturbedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// What the compute stream's operations take one after the other, with the least by which what runs
// beside them slows them down. An operation that needs all of a resource (its share is 1) gives way
// by the share of whatever runs beside it on that resource. What runs beside it on a communicator
// or stream is one at a time, so that it can only avoid such operations while others, or none, are
// under way, and there is only so much of those.
Time DisturbedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// The peak of allocated memory with every free taking effect as soon as it is issued
// (memory/host_order.h): no run has a lower one.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

}  // namespace stepcast::planner
