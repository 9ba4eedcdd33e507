#pragma once

#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/network/traffic.h"

// Collectives as flows: each is one activity that uses a part of every link it crosses, and links
// are divided max-min fairly among those that are on the way (engine/shared_resources.h).
//
// Alone, a collective takes its analytic time T. For W of that, Traffic::transfer, its links are
// busy; the rest, T - W, is latency and the filling of pipelines, which others do not lengthen.
// Link l has carried its bytes b_l in b_l / B_l of the W, so the collective uses the part
// b_l / (B_l W) of it: all of its busiest link, less of others. Two collectives that meet on a link
// and use u and v of it run on unhindered while u + v <= 1; beyond that both slow down by the same
// factor, unless one of them is slowed more elsewhere and leaves the rest to the other.
namespace stepcast::network {

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
