#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/priced_kind.h"
#include "src/cost/prices.h"
#include "src/forecast/priced_class.h"
#include "src/network/collective_traffic.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// The classes of ranks that a scenario's forecast simulates, and the network that joins them.
//
// Analytic: the coarsest classes whose ranks run one program in equivalent surroundings: lowered
// classes, and of those the parts that slow devices set apart. With the network as flows, those of
// them that links tell apart are classes of their own (cost/flow_classes.h); message by message
// every rank is simulated. Either way the first rank of each class by programs and devices alone is
// shown.
struct SimulatedRanks {
  // A class that is part of the answer: it stands for so many ranks.
  struct Shown {
    std::size_t index = 0;    // of `classes`
    std::size_t lowered = 0;  // which of the lowered classes its ranks are of
    int ranks = 1;
    std::vector<int> members{};  // these, ascending; empty: all that there are
    double speed = 1;            // of its devices
  };

  std::vector<simulate::RankClass> classes{};
  std::vector<Shown> shown{};  // by lowest rank
  std::optional<network::CollectiveTraffic> traffic{};
  // Storage that `classes` points to, beside `lowered`.
  std::deque<std::vector<program::ProcessGroup>> groups{};
  std::deque<std::vector<int>> members{};
  std::deque<cost::Prices> slowed{};
};

// `lowered` must outlive the result; `steps`: how often the step is run at least. Errors: those of
// cost::FlowClassesOf and cost::RouteCollectives.
Result<SimulatedRanks> SimulatedRanksOf(const scenario::Scenario& scenario,
                                        std::span<const PricedClass> lowered, int steps);

// Collectives as flows on the cluster's links: one rank of each class that neither labels nor links
// tell apart; nothing of it is `shown`. `labels`: [rank] in `kinds`; `layouts`: all that their
// programs have groups of, in which every rank is. Programs and prices outlive the result.
Result<SimulatedRanks> FlowRanksOf(const scenario::Scenario& scenario,
                                   std::span<const std::int64_t> labels,
                                   std::span<const cost::PricedKind> kinds,
                                   const std::vector<parallel::GroupLayout>& layouts);

}  // namespace stepcast::forecast
