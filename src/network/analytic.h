#pragma once

#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/network/traffic.h"

namespace stepcast::network {

// The time of an uncontended collective on the network in closed form, by the type of its loops.
//
// Overlapping loops (trees, chains, reduction in switches, point-to-point messages): connections
// never wait for each other's links (traffic.h). A connection c with m messages of duration d per
// loop is busy for p_c = m x d per loop, and the loops form a pipeline. The time of one loop is its
// longest chain of messages. In a chain, a message that is forwarded takes d + latency; a message
// that is followed by the next message of the same connection takes d. L loops take
//      T = max over c of (the longest chain of one loop through c) + (L - 1) p_c.
//
// On a flat network with latency a, bandwidth B and a double binary tree over n ranks, this is the
// textbook's 2 ceil(log2 n) a + 2 S / B, plus the time to fill the pipeline.
//
// Consecutive loops (rings, PAT, hierarchical): a worker waits, through other workers, for its own
// steps. The first three loops are evaluated, and the difference between the second and the third
// is extrapolated. The busy time of each connection is a lower bound.
//
// Large rings: a chain of messages moves around the ring. The chain has K = 2 (n - 1) L steps (half
// of that for reduce-scatter and all-gather) of S slices each. A step takes the longer of the move
// to the next rank (latency + d) and the wait for the S previous slices at the same rank (S x d).
// The time of each loop's remaining slices is added. With equal latencies a and bandwidths B, the
// time is 2 (n - 1) (a + S_total / (n B)), as in the textbook. The longest chain over n start ranks
// is found by sums over the ring.

struct AnalyticTime {
  Time total{};
  // Lower bounds for the time in every network mode:
  Time latency_bound{};    // sum of the latencies of the links that one loop crosses
  Time bandwidth_bound{};  // value of Traffic::bandwidth_bound
};
AnalyticTime PriceAnalytically(const Traffic& traffic);

// Collectives as flows. Each collective is one activity that uses a fraction of every link on its
// routes. Concurrent activities share links with max-min fairness (engine/shared_resources.h).
// Without contention, a collective takes its analytic time T. The collective's links are busy for W
// of this time (Traffic::transfer). The rest, T - W, is latency and the time to fill pipelines,
// which other traffic does not lengthen. Link l transfers b_l bytes in b_l / B_l, so the collective
// uses the fraction b_l / (B_l W) of the link: 1 for its busiest link, less for other links. Two
// collectives with fractions u and v of a link slow each other down only if u + v > 1, by the same
// factor. If other links slow one collective further, the other collective uses the remaining
// capacity of the link.

struct FlowDemand {
  Time latency{};
  Time work{};
  std::vector<engine::SharedResources::Use> uses{};  // uses of links
};
FlowDemand DemandOf(const Traffic& traffic);

}  // namespace stepcast::network
