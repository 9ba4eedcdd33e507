#pragma once

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/planner/short_program.h"
#include "src/program/program.h"

// Bounds of a step program's simulation, in one pass over its instructions. A repeated part is
// walked until an iteration repeats the one before, and then counted as often as it runs.
namespace stepcast::planner {

// Lower bound of the step time: every operation takes its uncontended duration. No operation takes
// less, and streams, communicators, events and the host are sums and maxima of such times, so a
// longer operation makes none start earlier, and no simulation repeats its steps faster.
// `counts_collectives`: false where the network is simulated, for which prices of collectives are
// no bound; they then take no time.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Lower bound of the time from the end of a step's last backward kernel to the beginning of the
// next step's first forward kernel. It is the longest chain of operations that are issued between
// the two, each of which waits for the one before it; the first waits for that backward kernel, and
// the forward kernel waits for the last. `counts_collectives`: as above.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Lower bound of the compute stream's time, one operation after the other, with the least
// contention. An operation that needs all of a resource (its share is 1) is slowed by the shares of
// concurrent operations on that resource. A communicator or stream runs one operation at a time, so
// it avoids such operations only while it runs others or is idle, and that time is limited.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// The peak of allocated memory with every free taking effect as soon as it is issued
// (memory/host_order.h): no run has a lower one.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

}  // namespace stepcast::planner
