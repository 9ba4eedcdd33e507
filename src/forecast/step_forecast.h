#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/class_time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/scenario/job_devices.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// Caches the scenario for each kind of node. The scenario passed to the constructor must outlive
// this object.
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

// Marks the operations with times that are needed: operations that deferred frees wait for, and
// operations that show whether a step is periodic.
class MarkedOperations {
 public:
  // `repeated` is null unless the step represents a longer step. Must outlive this object.
  MarkedOperations(const std::vector<PricedClass>& priced,
                   const std::vector<memory::DeferredFrees>& frees,
                   const RepeatedOperations* repeated = nullptr);

  // Returns whether the memory forecast needs the times of operations.
  bool for_memory() const { return for_memory_; }
  // Returns whether any operations are marked.
  bool any() const { return for_memory_ || repeated_ != nullptr; }
  // Stores the marks in `ranks`, which then refers to this object. In classes that are not
  // reported, marks only the operations that show the period.
  void MarkIn(SimulatedRanks& ranks) const;

 private:
  std::vector<std::vector<bool>> marked_;          // indexed by priced class and instruction
  std::vector<const program::Program*> programs_;  // indexed by priced class
  const RepeatedOperations* repeated_;
  bool for_memory_ = false;
};

// Computes a forecast from priced programs. All forecasts use this class. Call Make once. All
// arguments must outlive the object.
class StepForecast {
 public:
  // `frees` has the deferred frees of each class in `priced`. If `priced` are the classes of a
  // shorter step, `shorter` describes this step. If `priced` are the scenario's own classes,
  // `shorter` is null.
  StepForecast(const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
               const std::vector<memory::DeferredFrees>& frees, Detail detail,
               const ShorterStep* shorter, simulate::Simulator& simulator,
               memory::Replayer& replayer)
      : scenario_(scenario),
        kinds_(scenario),
        priced_(priced),
        frees_(frees),
        barrier_(scenario.plan.training.step_barrier),
        detail_(detail),
        shorter_(shorter),
        simulator_(simulator),
        replayer_(replayer) {}

  // Computes the forecast. None if the shorter step is not sufficient to forecast the scenario's
  // step. The programs and prices of the run's classes are empty until HandOverPrograms. Errors:
  // the errors of SimulatedRanksOf and CheckClock.
  Result<std::optional<Run>> Make(const MicroBatchFlops& flops);

  // Moves the programs of `priced` to the classes of `run`, which Make returned.
  void HandOverPrograms(std::vector<PricedClass>& priced, Run& run) const;

 private:
  bool records_times() const { return detail_ >= Detail::kTimes; }
  // Simulates the steps. Returns false if the shorter step is not periodic.
  bool RunSteps();
  // Simulates the steps, with the records that `detail_` needs.
  SteadyRun RunForTime();
  void AddClass(const RankClass& reported);
  // Adds the memory of a reported class. Returns false if the shorter step is not sufficient to
  // compute the memory of the longer step.
  bool AddMemory(std::size_t reported);
  void FindCritical();
  void SummariseMemories();
  double WireBytes() const;
  void SummariseTimes();
  void AddRange();
  tl::expected<void, Diagnostics> AddStops();
  void WidenByHost();

  TimedClass TimedClassOf(const RankClass& reported, const program::Timeline& timeline) const;
  program::LongerStep LongerOf(std::size_t priced) const {
    return repeated_ ? repeated_->LongerOf(priced) : program::LongerStep{};
  }
  StepCounts CountsOf(std::size_t priced) const {
    return {priced_[priced].program, LongerOf(priced)};
  }

  const scenario::Scenario& scenario_;
  const KindScenarios kinds_;
  const std::vector<PricedClass>& priced_;
  const std::vector<memory::DeferredFrees>& frees_;
  const bool barrier_;
  const Detail detail_;
  const ShorterStep* const shorter_;
  simulate::Simulator& simulator_;
  memory::Replayer& replayer_;
  SimulatedRanks ranks_;
  std::optional<RepeatedOperations> repeated_;
  std::optional<MarkedOperations> marked_;
  std::vector<bool> all_;  // marks of all operations of the first class, for the range
  SteadyRun of_time_;
  std::optional<SteadyRun> of_memory_;  // set if memory needs a separate run
  std::vector<program::Timeline> timelines_, memory_timelines_;  // by simulated class, if copied
  std::optional<StepPeriod> period_;
  std::vector<std::vector<memory::DriverCallsAt>> calls_;  // by priced class
  bool stops_ = false;                                     // whether any class has driver calls
  // indexed by reported class:
  std::vector<Time> own_ends_;  // ends of the described step
  std::vector<MemoryForecast> memories_;
  Run run_;
};

}  // namespace stepcast::forecast
