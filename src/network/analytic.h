#pragma once

#include "src/base/time.h"
#include "src/network/traffic.h"

// How long a collective takes alone on the network, in closed form.
//
// Loops that overlap (trees, chains, in-switch reduction, sends and receives)
//   Connections never wait for each other's links (traffic.h), so a connection c with m messages of
//   d each in a loop takes p_c = m d for every loop, and the collective is a pipeline. One loop
//   takes its longest chain of messages, each d + latency where it is passed on and d where the
//   next message of the same connection follows. L loops take
//
//       T = max over c of (the longest chain of one loop that leads through c) + (L - 1) p_c.
//
//   On a flat network with latency a, bandwidth B and a double binary tree over n ranks that is the
//   textbook's 2 ceil(log2 n) a + 2 S / B, and the filling of the pipeline.
//
// Loops that follow one another (rings, PAT, hierarchical): a worker waits, by way of the others,
// for its own steps. The first loops are evaluated, and the growth from the second to the third
// continues; a connection that is busy throughout is slower than that if it has to.
//
// Large rings: a chain of messages walks around the ring. K = 2 (n - 1) L steps (half of that for
// reduce-scatter and all-gather) of S slices each, in each step either on to the next rank,
// latency + d, or waiting for the S slices before it at the same rank, S d, whatever is more; and
// the slices after the first of every loop. With equal latencies a and bandwidths B that is
// 2 (n - 1) (a + S_total / (n B)), the textbook's ring. The longest walk is found among n starts by
// sums over the ring, not step by step.
namespace stepcast::network {

struct AnalyticTime {
  Time total{};
  // No fidelity is faster than these two.
  Time latency_bound{};    // of the links crossed, one after the other, by one loop
  Time bandwidth_bound{};  // Traffic::bandwidth_bound
};
AnalyticTime PriceAnalytically(const Traffic& traffic);

}  // namespace stepcast::network
