#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/network/traffic.h"

namespace stepcast::network {

// The time of an uncontended collective on the network, in closed form.
//
// Overlapping loops (trees, chains, in-switch reduction, sends and receives): connections never
// wait for each other's links (traffic.h). A connection c with m messages of duration d in a loop
// needs p_c = m d per loop, and the collective is a pipeline. The time of one loop is its longest
// chain of messages: d + latency for each message that is forwarded, and d for each that is
// followed by the next message of the same connection. L loops take
//
//      T = max over c of (the longest chain of one loop that leads through c) + (L - 1) p_c.
//
// On a flat network with latency a, bandwidth B and a double binary tree over n ranks, this is the
// textbook's 2 ceil(log2 n) a + 2 S / B, plus the time to fill the pipeline.
//
// Consecutive loops (rings, PAT, hierarchical): a worker waits, through the other workers, for its
// own steps. The first three loops are evaluated, and the growth from the second to the third is
// extrapolated. A connection that is always busy gives a lower bound.
//
// Large rings: a chain of messages walks around the ring. It has K = 2 (n - 1) L steps (half of
// that for reduce-scatter and all-gather) of S slices each. Each step either moves to the next
// rank, latency + d, or waits for the S previous slices at the same rank, S d, whichever is longer;
// then come the remaining slices of every loop. With equal latencies a and bandwidths B that is 2
// (n - 1) (a + S_total / (n B)), the textbook's ring. The longest walk is found among n starts by
// sums over the ring instead of step by step.

struct AnalyticTime {
  Time total{};
  // Lower bounds of the time, which hold for every fidelity.
  Time latency_bound{};    // latencies of the links that one loop crosses, added up
  Time bandwidth_bound{};  // Traffic::bandwidth_bound
};
AnalyticTime PriceAnalytically(const Traffic& traffic);

// Collectives as flows. Each collective is one activity that uses a share of every link that it
// crosses. Concurrent activities divide links max-min fairly (engine/shared_resources.h).
//
// Without contention, a collective takes its analytic time T. Its links are busy for W of that time
// (Traffic::transfer). The rest, T - W, is latency and pipeline filling, which other traffic does
// not lengthen. Link l carries b_l bytes in b_l / B_l of the time W. The collective therefore uses
// the share b_l / (B_l W) of the link. It uses its busiest link wholly and other links less. Two
// collectives with shares u and v of a link do not slow each other while u + v <= 1. Otherwise,
// both slow down by the same factor. If other links slow one collective more, the other collective
// gets the rest of the link.

struct FlowDemand {
  Time latency{};
  Time work{};
  std::vector<engine::SharedResources::Use> uses{};  // of links
};
FlowDemand DemandOf(const Traffic& traffic);

struct FlowJob {
  const Traffic* traffic = nullptr;
  Time start{};
};

// Runs the jobs and returns the end of each. The traffic of all jobs must be on `network`.
std::vector<Time> RunFlows(const Network& network, std::span<const FlowJob> jobs);

}  // namespace stepcast::network
