#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/priced_kind.h"
#include "src/network/collective_traffic.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_classes.h"
#include "src/scenario/scenario.h"

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
namespace stepcast::cost {

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

}  // namespace stepcast::cost
