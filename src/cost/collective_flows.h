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

// Returns the highest price of a collective among all these kinds, because all ranks of the group
// finish together (scenario/job_devices.h). `collective` is an index in the first kind's program.
// Kinds with other collectives are ignored.
const CollectivePrice& SlowestPrice(std::span<const RankClass> kinds, program::Index collective);

// Converts a priced collective or message to a flow. The flow has the latency of the price. Its
// work W is the longer of the price's work and the links' work. If link l carries b_l bytes at
// bandwidth B_l, the flow uses the fraction b_l / (B_l W) of the link.

// Returns `needed`, the links' work, if it is longer than `priced`, the price's work, by more than
// rounding. Otherwise returns `priced`.
Time LongerWork(Time priced, Time needed);

// Returns the work, in time, of a flow of `bytes` bytes.
Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price);

// Returns the fraction of a link that the flow uses, at most 1. `busy` is the time in seconds that
// the link needs for each byte.
double FlowShare(double busy, Bytes bytes, Time work);

// Routes priced collectives and messages over the cluster's links, for every rank of a run.
//
// The price's algorithm determines which rank sends which bytes to which rank
// (network/group_steps.h), and the price determines the uncontended duration. If the links need
// longer than the price's work, because a spine is too narrow or a link is slow, the links decide.
// There are two modes:
//   flow: one flow for each group, as described above.
//   message: every message is sent separately. A message of S bytes goes as a scatter of 2 S over
//     its two ranks, of which the root keeps half. Connections send at the fraction (links' work) /
//     W of the rate that links allow. The collective starts later by the excess of its latency over
//     its messages' latency. If the messages' own latency exceeds the price's latency, the messages
//     send faster, but at most as fast as links allow.
// Between nodes of several kinds, the highest price counts (cost/prices.h). On healthy links with
// spare bandwidth and without contention, both modes take the time of the price: the flow mode
// exactly, the message mode except for pipeline ends.
//
// Errors: cost.no-network (the cluster has no links, or no route between two ranks),
// cost.too-many-messages.

// The largest number of messages that a run simulates individually. A run with this number takes
// some minutes.
inline constexpr std::int64_t kMostMessages = 1'000'000'000;

// Routes the collectives of a run. In `classes`, the groups of each class contain its
// representative and are in the order of its program's groups. `steps` is the number of steps to be
// run. Requires that the scenario's network is not analytic.
Result<network::CollectiveTraffic> RouteCollectives(const scenario::Scenario& scenario,
                                                    std::span<const RankClass> classes, int steps);

// Flow mode on classes of ranks. One rank is simulated for each class of ranks that cannot be
// distinguished, not even by their links.
//
// Ranks, their groups, the messages between two ranks, and links are colored together
// (parallel/rank_classes.h). With max-min fair sharing, all flows of one color have the same rate.
// It is therefore enough to simulate one flow for each color of groups or messages, and one link
// for each color of links. The flow uses the link as much as all flows of its color together use
// one such link. If symmetry is broken (a slow link, an odd number of nodes below a leaf, one GPU
// too many for a card), there are more colors; in the extreme, one class per rank.
//
// Links that can never be saturated, whatever runs at the same time, slow no flow and are removed
// first. Flows that differ only in those links have one color. Loads that differ by less than 1e-9
// count as equal.

struct FlowClasses {
  // The classes of ranks. The first meetings are the meetings of the layouts' groups
  // (parallel::GroupMeetings).
  parallel::Classes classes;
  // The traffic, indexed by class: the collectives of the class's representative, in the first
  // group of each color.
  network::CollectiveTraffic traffic;
};

// Returns the classes for flow mode. `labels` has, for each rank, an index in `kinds`, of which
// only programs and prices are used. `layouts` are all group layouts of the programs. In a group of
// several kinds, the highest price counts. Errors: cost.no-network.
Result<FlowClasses> FlowClassesOf(const scenario::Scenario& scenario,
                                  std::span<const std::int64_t> labels,
                                  std::span<const RankClass> kinds,
                                  std::span<const parallel::GroupLayout> layouts);

// Returns the network of a scenario's cluster, including slow and failed links. Errors:
// cost.no-network.
Result<std::unique_ptr<const network::ClusterNetwork>> NetworkOf(
    const scenario::Scenario& scenario);

// Returns the diagnostic cost.no-network, for traffic that has no links or no route.
Diagnostics NoNetwork(const scenario::Scenario& scenario, const network::Fault& fault);

}  // namespace stepcast::cost
