#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/forecast/rank_class.h"
#include "src/network/collective_traffic.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// The ranks of one label on one kind of node, their program, and what its operations cost there. A
// scenario has those of the first kind first, of each kind by label.
struct PricedClass : RankClass {
  program::Program program{};  // of the first rank that has the label
  cost::Prices prices{};
};

// A class that is part of the answer.
struct ReportedClass : RankClass {
  std::size_t index = 0;   // in SimulatedRanks::classes, the class that its first rank is in
  std::size_t priced = 0;  // among the priced classes, the one that its ranks are in
};

// The classes of ranks that a scenario's forecast simulates, and the network that joins them.
//
// Analytic: the coarsest classes whose ranks run one program in equivalent surroundings. These are
// the labels of the plan, and where devices differ, by their kind or speed, the classes of a
// colouring (parallel/rank_classes.h). With the network as flows, those of them that links tell
// apart are classes of their own (cost/collective_flows.h); message by message every rank is
// simulated. The answer has the analytic classes at every fidelity: of each its first rank is
// reported.
struct SimulatedRanks {
  std::vector<simulate::RankClass> classes{};  // by representative
  std::vector<ReportedClass> reported{};       // by first rank
  std::optional<network::CollectiveTraffic> traffic{};
  // Storage that `classes` points to, beside the priced classes and `reported`.
  std::deque<std::vector<program::ProcessGroup>> groups{};
  std::vector<std::vector<int>> members{};
  std::deque<cost::Prices> slowed{};
};

// `priced` must outlive the result; `steps`: how often the step is run at least. Errors: those of
// cost::FlowClassesOf and cost::RouteCollectives.
Result<SimulatedRanks> SimulatedRanksOf(const scenario::Scenario& scenario,
                                        std::span<const PricedClass> priced, int steps);

// Collectives as flows on the cluster's links: one rank of each class that neither labels nor links
// tell apart; none of them is reported. `labels`: [rank] in `kinds`; `layouts`: all that their
// programs have groups of, in which every rank is. Programs and prices outlive the result.
Result<SimulatedRanks> FlowRanksOf(const scenario::Scenario& scenario,
                                   std::span<const std::int64_t> labels,
                                   std::span<const cost::PricedKind> kinds,
                                   const std::vector<parallel::GroupLayout>& layouts);

}  // namespace stepcast::forecast
