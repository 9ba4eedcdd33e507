#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/priced_kind.h"
#include "src/cost/prices.h"
#include "src/network/collective_traffic.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Routes priced collectives, and the messages of exchanges, over the cluster's links, for every
// rank of a run. Message by message, a message of S bytes goes as a scatter of 2 S over its two
// ranks, of which the root keeps a half.
//
// Which rank sends which bytes to which follows from the price's algorithm (network/group_steps.h);
// the uncontended duration follows from the price. Where the links need longer than the price's
// work for what the algorithm puts on them, because a spine is too narrow or a link is slow, they
// decide.
//
//   flow      as cost/priced_flow.h says; one flow for each group.
//   message   connections send at the price's rate, the part (links' work) / W of what links allow,
//             and the collective starts later by what its latency exceeds that of its messages. If
//             the messages' own latency is more than the price has, they send faster, at most as
//             fast as links allow.
//
// Between nodes of several kinds the price that takes longest counts (cost/priced_kind.h).
//
// Uncontended, on healthy links with a rate to spare, both take the time of the price: flow
// exactly, message but for the ends of pipelines.
//
// Errors: cost.no-network (the cluster has no links, or no route between two ranks),
// cost.too-many-messages.
namespace stepcast::cost {

// The most messages that a run simulates one by one, some minutes of simulation.
inline constexpr std::int64_t kMostMessages = 1'000'000'000;

// The program of a class of ranks; `groups` are its own, in the order of its program's.
struct RoutedClass {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  const std::vector<program::ProcessGroup>* groups = nullptr;
  int rank = 0;  // its representative, which is in these groups
};

// `steps`: how often the step will be run. Requires that the scenario's network is not analytic.
Result<network::CollectiveTraffic> RouteCollectives(const scenario::Scenario& scenario,
                                                    std::span<const RoutedClass> classes,
                                                    int steps);

}  // namespace stepcast::cost
