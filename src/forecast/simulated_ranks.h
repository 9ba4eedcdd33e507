#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/forecast/values.h"
#include "src/network/collective_traffic.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// The ranks that have one label and run on one kind of node, with their program and the prices of
// the program's operations. A scenario's classes are ordered by kind of node, then by label.
struct PricedClass : RankClass {
  program::Program program{};  // program of the first rank with the label
  cost::Prices prices{};
};

// The rank classes that a forecast simulates, and the network between them.
//
// In analytic mode, ranks of a class run one program and have equivalent peers. The classes are the
// plan's labels or, if devices differ in kind or speed, the classes of a coloring
// (parallel/rank_classes.h). In flow mode, ranks of a class also have equal links
// (cost/collective_flows.h). In message mode, every rank is simulated. Forecasts always report the
// analytic classes, represented by their first ranks.
struct SimulatedRanks {
  std::vector<simulate::RankClass> classes{};  // sorted by representative
  std::vector<RankClass> reported{};           // sorted by first rank
  std::optional<network::CollectiveTraffic> traffic{};
  // Owns objects to which `classes` refers.
  std::deque<std::vector<program::ProcessGroup>> groups{};
  std::vector<std::vector<int>> members{};
  std::deque<cost::Prices> slowed{};
};

// Returns the classes to simulate. `priced` must outlive the result. `steps` is the minimum number
// of steps. Errors: the errors of cost::FlowClassesOf and cost::RouteCollectives.
Result<SimulatedRanks> SimulatedRanksOf(const scenario::Scenario& scenario,
                                        std::span<const PricedClass> priced, int steps);

// Returns the classes for the simulation of collectives as flows on the cluster's links. Ranks with
// equal labels and links form a class. `reported` is empty. `labels` maps each rank to an index in
// `kinds`. `layouts` are the layouts of all groups in the programs. Programs and prices must
// outlive the result.
Result<SimulatedRanks> FlowRanksOf(const scenario::Scenario& scenario,
                                   std::span<const std::int64_t> labels,
                                   std::span<const cost::RankClass> kinds,
                                   const std::vector<parallel::GroupLayout>& layouts);

}  // namespace stepcast::forecast
