#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/network/traffic.h"

namespace stepcast::network {

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

struct AnalyticTime {
  Time total{};
  // No fidelity is faster than these two.
  Time latency_bound{};    // of the links crossed, one after the other, by one loop
  Time bandwidth_bound{};  // Traffic::bandwidth_bound
};
AnalyticTime PriceAnalytically(const Traffic& traffic);

// Collectives as flows: each is one activity that uses a part of every link it crosses, and links
// are divided max-min fairly among those that are on the way (engine/shared_resources.h).
//
// Alone, a collective takes its analytic time T. For W of that, Traffic::transfer, its links are
// busy; the rest, T - W, is latency and the filling of pipelines, which others do not lengthen.
// Link l has carried its bytes b_l in b_l / B_l of the W, so the collective uses the part
// b_l / (B_l W) of it: all of its busiest link, less of others. Two collectives that meet on a link
// and use u and v of it run on unhindered while u + v <= 1; beyond that both slow down by the same
// factor, unless one of them is slowed more elsewhere and leaves the rest to the other.

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

// [job]: its end. All traffics are on `network`.
std::vector<Time> RunFlows(const Network& network, std::span<const FlowJob> jobs);

}  // namespace stepcast::network
