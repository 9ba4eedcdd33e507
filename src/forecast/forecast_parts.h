#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/allocator_stops.h"
#include "src/forecast/priced_class.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/values.h"
#include "src/memory/replay.h"
#include "src/model/model.h"
#include "src/program/program.h"
#include "src/scenario/node_kinds.h"
#include "src/scenario/scenario.h"

// These are the parts that a whole forecast (forecast.cc) and a row of a sweep (forecaster.cc)
// share. No other file includes this one.
namespace stepcast::forecast {

// The scenario of each kind of node, by kind.
class KindScenarios {
 public:
  explicit KindScenarios(const scenario::Scenario& scenario) : scenario_(scenario) {
    if (count() == 1) return;
    for (int kind = 0; kind < count(); ++kind) own_.push_back(scenario::OfKind(scenario, kind));
  }
  int count() const { return scenario::KindCount(scenario_); }
  const scenario::Scenario& operator[](int kind) const {
    return own_.empty() ? scenario_ : own_[static_cast<std::size_t>(kind)];
  }

 private:
  const scenario::Scenario& scenario_;
  std::vector<scenario::Scenario> own_;
};

// The classes of a scenario's ranks, by kind of node and then by label, with programs but without
// prices. `works`, `lowered`: as for lowering::Lower.
std::vector<PricedClass> UnpricedClasses(
    const scenario::Scenario& scenario, const KindScenarios& kinds,
    const std::vector<model::LayerWork>* works = nullptr,
    const std::function<void(program::Program&)>& lowered = {});

// Beside the prices, so that bounds of steps, which hold without it, hold with it.
void AddJitter(const scenario::Scenario& scenario, const program::Program& program,
               cost::Prices& prices);

// A class that does not fit says more than one that does, and then the one with the higher peak.
bool Fuller(const MemoryForecast& a, const MemoryForecast& b);

// Whose range the step's is. Classes on like devices have nearly the same one, so it is that of the
// first, whose operations can be recorded before it is known which of them ends the step.
std::size_t RangedClass(const SimulatedRanks& ranks, std::size_t critical);

// Memory is that of a job whose steps are all alike, the first one too.
memory::Steps StepsOfMemory(const SteadyRun& run);

// Adds what the device stands still for the allocator. Whether one with that little left flushes as
// often is not known: it may take no time, or twice as much.
void AddAllocatorStops(const AllocatorStops& stops, Forecast& forecast);

}  // namespace stepcast::forecast
