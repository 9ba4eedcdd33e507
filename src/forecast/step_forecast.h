#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/class_time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/forecast_parts.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/training_run.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/program/timeline.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// Computes a forecast from priced programs. All forecasts use this class. Make runs the parts in
// order; call it once. All arguments must outlive the object.
class StepForecast {
 public:
  // `frees`: FreesOf(priced). `shorter`: the shorter step, if `priced` are its classes instead of
  // the scenario's; null otherwise. The simulator and the replayer may be reused.
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

  // None if the shorter step does not determine the scenario's step. The classes of the run do not
  // have programs or prices yet. Errors: those of SimulatedRanksOf and CheckClock.
  Result<std::optional<Run>> Make(const MicroBatchFlops& flops);

  // Moves the programs of `priced` to the classes of `run`, which Make returned.
  void HandOverPrograms(std::vector<PricedClass>& priced, Run& run) const;

 private:
  bool records_times() const { return detail_ >= Detail::kTimes; }
  // Returns false if the shorter step is not periodic.
  bool RunSteps();
  // Runs the steps with the records that `detail_` needs.
  SteadyRun RunForTime();
  void AddClass(const ReportedClass& reported);
  // Returns false if the shorter step does not determine the longer one's memory.
  bool AddMemory(std::size_t reported);
  void FindCritical();
  void SummariseMemories();
  double WireBytes() const;
  void SummariseTimes();
  void AddRange();
  tl::expected<void, Diagnostics> AddStops();
  void WidenByHost();

  TimedClass TimedClassOf(const ReportedClass& reported, const program::Timeline& timeline) const;
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
  std::vector<bool> all_;  // marks of the first class, to compute the range
  SteadyRun of_time_;
  std::optional<SteadyRun> of_memory_;                           // if memory needs a separate run
  std::vector<program::Timeline> timelines_, memory_timelines_;  // [simulated class], if taken
  std::optional<StepPeriod> period_;
  std::vector<std::vector<memory::DriverCallsAt>> calls_;  // [priced class]: of its allocator
  bool stops_ = false;                                     // whether there are driver calls
  // [reported class]
  std::vector<Time> own_ends_;  // of its described step
  std::vector<MemoryForecast> memories_;
  Run run_;
};

}  // namespace stepcast::forecast
