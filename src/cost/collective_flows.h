#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/link_loads.h"
#include "src/cost/prices.h"
#include "src/network/cluster_network.h"
#include "src/network/collective_traffic.h"
#include "src/network/network.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_classes.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// A priced collective or message as a flow: latency as priced; work W, the longer of the price's
// and the links'; of link l, with b_l bytes at bandwidth B_l, the share b_l / (B_l W).

// The links' work, if they decide: rounding alone does not make them.
Time LongerWork(Time priced, Time needed);

// The work of a flow of so many bytes.
Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price);

// The part of a link, busy for so many seconds a byte, that the flow uses; at most 1.
double FlowShare(double busy, Bytes bytes, Time work);

// Routes priced collectives, and the messages of exchanges, over the cluster's links, for every
// rank of a run. Message by message, a message of S bytes goes as a scatter of 2 S over its two
// ranks, of which the root keeps a half.
//
// Which rank sends which bytes to which follows from the price's algorithm (network/group_steps.h);
// the uncontended duration follows from the price. Where the links need longer than the price's
// work for what the algorithm puts on them, because a spine is too narrow or a link is slow, they
// decide.
//
//   flow      as cost/collective_flows.h says; one flow for each group.
//   message   connections send at the price's rate, the part (links' work) / W of what links allow,
//             and the collective starts later by what its latency exceeds that of its messages. If
//             the messages' own latency is more than the price has, they send faster, at most as
//             fast as links allow.
//
// Between nodes of several kinds the price that takes longest counts (cost/prices.h).
//
// Uncontended, on healthy links with a rate to spare, both take the time of the price: flow
// exactly, message but for the ends of pipelines.
//
// Errors: cost.no-network (the cluster has no links, or no route between two ranks),
// cost.too-many-messages.

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

// Flow on classes: of ranks that nothing tells apart, not even on links, one is simulated.
//
// Ranks, their groups, the messages between two of them, and links are coloured together
// (parallel/rank_classes.h). When links are divided max-min fairly, flows of one colour have one
// rate: so one flow for each colour of groups or messages on one link for each colour of links
// gives the times of all flows on all links, if the flow uses of the link what all of its colour
// together use of one link. Where symmetry is broken, by a slow link, an odd number of nodes below
// a leaf or one GPU too many for a card, there are more colours; in the end a class for every rank.
//
// Links that can never be used up, whatever runs at the same time, hinder none and are left out
// before: flows that differ on those alone are of one colour.
//
// The colouring takes loads to be equal that are so within 1e-9.

struct FlowClasses {
  // The meetings are first of all the groups of the layouts (parallel::GroupMeetings).
  parallel::Classes classes;
  // By class, for its representative in the first groups of their colours.
  network::CollectiveTraffic traffic;
};

// `labels`: [rank] in `kinds`: what it runs. `layouts`: all that the programs have groups of. In a
// group of several kinds the price that takes longest counts. Errors: cost.no-network.
Result<FlowClasses> FlowClassesOf(const scenario::Scenario& scenario,
                                  std::span<const std::int64_t> labels,
                                  std::span<const PricedKind> kinds,
                                  std::span<const parallel::GroupLayout> layouts);

// The links of a scenario's cluster, with its slow and failed ones. Errors: cost.no-network.
Result<std::unique_ptr<const network::ClusterNetwork>> NetworkOf(
    const scenario::Scenario& scenario);

// That something has no links to go over: cost.no-network.
Diagnostics NoNetwork(const scenario::Scenario& scenario, const network::Fault& fault);

}  // namespace stepcast::cost
