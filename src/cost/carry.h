#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/network/carriage.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Puts priced collectives, and the messages of exchanges, on the cluster's links. A message of S
// bytes goes as a scatter of 2 S over its two ranks, of which the root keeps a half.
//
// Who sends what to whom follows from the price's algorithm (network/group_steps.h); how long a
// collective takes alone follows from its price. Where the links need longer than the price's work
// for what the algorithm puts on them, because a spine is too narrow or a link is slow, they
// decide.
//
//   flow      latency as priced; work W, the longer of the price's and the links'; of link l, with
//             b_l bytes at bandwidth B_l, the share b_l / (B_l W).
//   message   connections send at the price's pace, the part (links' work) / W of what links allow,
//             and the collective starts later by what its latency exceeds that of its messages. If
//             the messages' own latency is more than the price has, they send faster, at most as
//             fast as links allow.
//
// Alone on healthy links with a rate to spare, both take the time of the price: flow exactly,
// message but for the ends of pipelines.
//
// Errors: cost.no-network (the cluster has no links, or no way between two ranks),
// cost.too-many-messages.
namespace stepcast::cost {

// What is carried message by message at most in a run, some minutes of simulation.
inline constexpr std::int64_t kMostMessages = 1'000'000'000;

// What a class of ranks runs; `groups` are its own, in the order of its program's.
struct CarriedClass {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  const std::vector<program::ProcessGroup>* groups = nullptr;
  int rank = 0;  // its representative, which is in these groups
};

// `steps`: how often the step will be run. Requires that the scenario's network is not analytic.
Result<network::Carriage> Carry(const scenario::Scenario& scenario,
                                std::span<const CarriedClass> classes, int steps);

}  // namespace stepcast::cost
