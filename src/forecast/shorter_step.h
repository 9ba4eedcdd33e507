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
#include "src/parallel/schedule_repetition.h"
#include "src/plan/plan.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/simulate/simulate.h"

// Simulates a step of few micro-batches instead of many. Between filling and draining its pipeline,
// a step repeats itself. Suppose that each of these micro-batches ends one period after the one
// before it, on every stream of every rank. Then the micro-batches left out of the shorter step
// would do the same, and the longer step takes that many periods more. A run of the shorter step is
// checked for this; if the check fails, nothing is known of the longer step. Memory follows from
// the shorter step's requests, replayed as often as in the longer step (memory/replay.h).
namespace stepcast::forecast {

struct ShorterStep {
  std::int64_t micro_batches = 0;  // of the shorter step
  int period = 1;                  // micro-batches after which the schedule repeats
  std::int64_t left_out = 0;       // periods that the shorter step leaves out
  // [stage]: the micro-batches whose ends are compared with those one period earlier.
  std::vector<parallel::MicroBatchRange> repeated{};
};

// The shorter step for a plan. None if the schedule does not repeat, or if the step is too short to
// gain from it.
std::optional<ShorterStep> ShorterStepOf(const plan::Plan& plan);

// The scenario with the shorter step instead of its own.
scenario::Scenario Shortened(const scenario::Scenario& scenario, const ShorterStep& step);

// The operations whose records show whether a step repeats itself. A stage's program is cut where
// the micro-batches of ShorterStep::repeated end. Each piece between two cuts has one such
// operation per stream, the last on it.
class RepeatedOperations {
 public:
  // `priced` are the classes of the shorter step.
  RepeatedOperations(const std::vector<PricedClass>& priced, const ShorterStep& step);

  // The cuts in a priced class's program: the last operation of each compared micro-batch.
  std::span<const program::Index> EndsOf(std::size_t priced) const { return ends_[priced]; }
  // The longer step, in terms of the shorter step's program.
  program::LongerStep LongerOf(std::size_t priced) const;
  // The operations of a priced class, by piece and then by stream; kNone for a stream without
  // operations in a piece.
  const std::vector<program::Index>& Of(std::size_t priced) const { return of_[priced]; }

 private:
  std::vector<std::vector<program::Index>> ends_, of_;  // by priced class
  int period_;
  std::int64_t left_out_;
};

// How the described step of a run repeats itself.
struct StepPeriod {
  // The time span of a class's run that the longer step repeats, and how often.
  MoreTime More(std::size_t rank_class, const ShorterStep& step) const {
    return {.begin = begins[rank_class], .length = length, .times = step.left_out};
  }

  Time length;
  std::vector<Time> begins;  // [class of SimulatedRanks]: repeats from here for a period
};

// The run of a shorter step, the simulator's last one, in which all classes recorded `operations`.
struct ShorterRun {
  const simulate::Simulator& simulator;
  const SteadyRun& run;
  const SimulatedRanks& ranks;
  std::span<const PricedClass> priced;
  const RepeatedOperations& operations;
  bool barrier = false;      // between steps
  bool needs_hosts = false;  // memory depends on when hosts issue frees
};

// None if the step does not repeat itself, or if that cannot be decided: steps do not repeat one
// another, or the lead of a host varies and matters.
std::optional<StepPeriod> PeriodOf(const ShorterRun& shorter, const ShorterStep& step);

}  // namespace stepcast::forecast
