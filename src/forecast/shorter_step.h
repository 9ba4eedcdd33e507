#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/class_time.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/plan/plan.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

// Simulates a step of few micro-batches instead of many. Between filling and draining its pipeline,
// a step is periodic. The condition is: in the shorter step, each micro-batch of this phase ends
// one period after the previous one, on every stream of every rank. Then the omitted micro-batches
// would also end one period apart, so each omitted period makes the step longer by one period. Each
// run of the shorter step is checked for this condition; if the check fails, the run is not used.
// Memory follows from the shorter step's requests, replayed as often as in the longer step
// (memory/replay.h).
namespace stepcast::forecast {

struct ShorterStep {
  std::int64_t micro_batches = 0;  // of the shorter step
  int period = 1;                  // micro-batches after which the schedule repeats
  std::int64_t left_out = 0;       // periods that the shorter step leaves out
  // For each stage: the micro-batches whose ends are compared with the ends one period earlier.
  std::vector<parallel::MicroBatchRange> repeated{};
};

// Returns the shorter step for a plan. None if the schedule is not periodic, or if the step is too
// short to gain from a shorter one.
std::optional<ShorterStep> ShorterStepOf(const plan::Plan& plan);

// Returns the scenario with its step replaced by the shorter step.
scenario::Scenario Shortened(const scenario::Scenario& scenario, const ShorterStep& step);

// The operations whose records show whether a step is periodic. A stage's program is cut where the
// micro-batches of ShorterStep::repeated end. In each piece between two cuts, the last operation on
// each stream is recorded.
class RepeatedOperations {
 public:
  // Selects the operations. `priced` are the classes of the shorter step.
  RepeatedOperations(const std::vector<PricedClass>& priced, const ShorterStep& step);

  // Returns the places at which the program of a priced class is cut: the last operation of each
  // compared micro-batch.
  std::span<const program::Index> EndsOf(std::size_t priced) const { return ends_[priced]; }
  // Returns a description of the longer step in terms of the shorter step's program.
  program::LongerStep LongerOf(std::size_t priced) const;
  // Returns the recorded operations of a priced class, first by piece and then by stream. kNone
  // marks a stream without operations in a piece.
  const std::vector<program::Index>& Of(std::size_t priced) const { return of_[priced]; }

 private:
  std::vector<std::vector<program::Index>> ends_, of_;  // by priced class
  int period_;
  std::int64_t left_out_;
};

// The period of a run's described step.
struct StepPeriod {
  // Returns the part of a class's run that the longer step repeats, and the number of repetitions.
  MoreTime More(std::size_t rank_class, const ShorterStep& step) const {
    return {.begin = begins[rank_class], .length = length, .times = step.left_out};
  }

  Time length;
  std::vector<Time> begins;  // [class of SimulatedRanks]: start of one period
};

// A run of a shorter step. It must be the simulator's last run, and all classes must have recorded
// `operations`.
struct ShorterRun {
  const simulate::Simulator& simulator;
  const SteadyRun& run;
  const SimulatedRanks& ranks;
  std::span<const PricedClass> priced;
  const RepeatedOperations& operations;
  bool barrier = false;      // between steps
  bool needs_hosts = false;  // memory depends on when hosts issue frees
};

// Returns the period of a run. None if the step is not periodic, or if the run does not decide
// this. It does not if successive steps differ, or if a host's lead over its device varies and
// matters.
std::optional<StepPeriod> PeriodOf(const ShorterRun& shorter, const ShorterStep& step);

}  // namespace stepcast::forecast
