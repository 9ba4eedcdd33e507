#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/model/model.h"
#include "src/program/program.h"
#include "src/scenario/job_devices.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// How much longer the step takes because allocators make these calls of the driver in it: the calls
// themselves, what hosts wait for before segments are given back, and what then no longer runs
// beside computation (memory/deferred_frees.h). The step is simulated once more; that the calls
// then come at other times is not followed up.
//
struct AllocatorStops {
  Time time;  // at least zero
  // The step may hang: a host waits for a message of another stage, and that stage waits for
  // something that this host has not issued yet. `time` is then what the calls take by themselves.
  bool may_hang = false;
};
// `calls` has the calls of each class of `priced`, and `step_time` is the step without them.
// Errors: those of SimulatedRanksOf.
Result<AllocatorStops> AllocatorStopsOf(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
    const std::vector<std::vector<memory::DriverCallsAt>>& calls, Time step_time,
    simulate::Simulator& simulator);

// Parts that forecast.cc and step_forecast.cc
// share. No other file includes this one.

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

// The frees of each priced class, in the classes' order, that the allocator defers.
std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& priced);

// The operations whose times are needed: those that deferred frees wait for, and those that say
// whether a step repeats itself.
class MarkedOperations {
 public:
  // `repeated`: null: the step is none that stands for a longer one. It is referred to.
  MarkedOperations(const std::vector<PricedClass>& priced,
                   const std::vector<memory::DeferredFrees>& frees,
                   const RepeatedOperations* repeated = nullptr);

  // Memory needs times.
  bool for_memory() const { return for_memory_; }
  // Something does.
  bool any() const { return for_memory_ || repeated_ != nullptr; }
  // The ranks refer to this. Those that are not reported matter to the period alone.
  void MarkIn(SimulatedRanks& ranks) const;

 private:
  std::vector<std::vector<bool>> marked_;          // by priced class and instruction
  std::vector<const program::Program*> programs_;  // likewise
  const RepeatedOperations* repeated_;
  bool for_memory_ = false;
};

// The work of a micro-batch of a scenario: the same for many plans, so the last few are cached.
class WorkCache {
 public:
  struct Work {
    std::vector<model::LayerWork> layers;  // model::BuildWork
    MicroBatchFlops flops;
  };

  // Stays as long as it is referenced.
  std::shared_ptr<const Work> Of(const scenario::Scenario& scenario);

 private:
  struct Entry {
    std::shared_ptr<const model::Model> model;
    model::WorkOptions options;
    std::shared_ptr<const Work> work;
  };
  static constexpr std::size_t kMostEntries = 16;

  std::vector<Entry> entries_;
};

// Where an assumed release decides whether attention keeps its scores in memory
// (Scenario::KernelDependsOnAssumedRelease), and the step would not fit with them: the probability
// that it fits is even at most. Takes as long as a forecast.
void DoubtAssumedKernel(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
