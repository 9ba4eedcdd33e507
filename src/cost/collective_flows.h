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

// Returns the highest price of a collective in `kinds`, because all ranks of the group finish
// together (scenario/job_devices.h). `collective` is an index in the first kind's program. Kinds
// with a different collective at index `collective` are ignored.
const CollectivePrice& SlowestPrice(std::span<const RankClass> kinds, program::Index collective);

// Converts a priced collective or message to a flow with the latency of the price. The flow's work
// W is the longer of the price's work and the time that the links need. If link l transfers b_l
// bytes at bandwidth B_l, the flow uses the fraction b_l / (B_l W) of the link.

// `needed` is the time that the links need, and `priced` is the work of the price. Returns `needed`
// if `needed` exceeds `priced` by more than rounding, otherwise `priced`.
Time LongerWork(Time priced, Time needed);

// Returns the duration W of the work of a flow of `bytes` bytes.
Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price);

// Returns the fraction of a link that the flow uses, at most 1. `busy` is the time in seconds for
// which one byte of the flow occupies the link.
double FlowShare(double busy, Bytes bytes, Time work);

// Assigns priced collectives and messages to the links of the cluster, for every rank of a run.
//
// The algorithm of the price determines which rank sends which bytes to which rank
// (network/group_steps.h). The uncontended duration is the time from the cost model, or the time
// that the links need if a narrow spine or a slow link makes this time longer. There are two modes:
//   - flow: one flow per group.
//   - message: every message is sent separately. A message of S bytes is modeled as a scatter of 2
//     S over its two ranks, in which the root keeps half. Connections send at the rate that the
//     links allow, multiplied by (links' work) / W. If the collective's latency exceeds the latency
//     of its messages, the collective starts later by the difference. If the latency is
//     smaller, the messages are sent faster, but not faster than the links allow.
// A group on nodes of several kinds has the highest price of these kinds (cost/prices.h). With
// healthy links and without contention, both modes reproduce the price. In message mode, the start
// and end of pipelines cause small differences.
//
// Errors: cost.no-network (the cluster has no links, or no route between two ranks),
// cost.too-many-messages.

// The largest number of messages that a run may simulate individually (some minutes of simulation).
inline constexpr std::int64_t kMostMessages = 1'000'000'000;

// Routes the collectives of a run. The groups of each class in `classes` contain the class's
// representative, in the order of its program's groups. `steps` is the number of steps to run. The
// scenario's network must not be analytic.
Result<network::CollectiveTraffic> RouteCollectives(const scenario::Scenario& scenario,
                                                    std::span<const RankClass> classes, int steps);

// Flow mode on classes of ranks. Ranks with equal programs, prices and links form a class, and one
// rank of each class is simulated.
//
// Ranks, groups, messages or links that cannot be distinguished get the same color
// (parallel/rank_classes.h). With max-min fair sharing, all flows of one color have the same rate.
// It is therefore enough to simulate one flow and one link per color. The simulated flow loads the
// simulated link as much as all flows of its color load one link. Asymmetry (a slow link, an odd
// number of nodes below a leaf, an additional GPU on a network card) adds colors, up to one class
// per rank.
//
// Links that cannot be saturated do not slow any flow. These links are removed first. Flows that
// differ only in removed links have the same color. Loads that differ by less than 1e-9 count as
// equal.

struct FlowClasses {
  // The classes of ranks. In `classes`, the groups of the layouts come first, in the order of
  // parallel::GroupMeetings.
  parallel::Classes classes;
  // The traffic by class: the collectives of the class's representative, for one group per color.
  network::CollectiveTraffic traffic;
};

// Returns the classes for flow mode. `labels` maps each rank to an index in `kinds`; only programs
// and prices of `kinds` are used. `layouts` are all group layouts of the programs. A group with
// ranks of several kinds has the highest price of these kinds. Errors: cost.no-network.
Result<FlowClasses> FlowClassesOf(const scenario::Scenario& scenario,
                                  std::span<const std::int64_t> labels,
                                  std::span<const RankClass> kinds,
                                  std::span<const parallel::GroupLayout> layouts);

// Returns the network of the scenario's cluster, with its slow and failed links. Errors:
// cost.no-network.
Result<std::unique_ptr<const network::ClusterNetwork>> NetworkOf(
    const scenario::Scenario& scenario);

// Returns the diagnostic cost.no-network, for traffic without links or without a route.
Diagnostics NoNetwork(const scenario::Scenario& scenario, const network::Fault& fault);

}  // namespace stepcast::cost
