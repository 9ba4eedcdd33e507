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

// A step of few micro-batches in the place of one of many. Between the micro-batches that fill a
// pipeline and those that drain it a step repeats itself: where each of these micro-batches ends
// everything that it does, on every stream of every rank, one period after the one before it, so
// would those that the shorter step leaves out, and the longer step takes so many periods more. It
// is looked at in a run of the shorter step; where it does not hold, nothing is known of the longer
// one. Memory follows from the shorter step's requests, which are replayed as often as the longer
// step has them (memory/replay.h).
namespace stepcast::forecast {

struct ShorterStep {
  std::int64_t micro_batches = 0;  // that the shorter step has
  int period = 1;                  // micro-batches after which the schedule repeats itself
  std::int64_t left_out = 0;       // periods of the longer step that the shorter one leaves out
  // [stage] the micro-batches whose ends are compared with those one period before them.
  std::vector<parallel::MicroBatchRange> repeated{};
};

// The shorter step that may stand for the plan's. None where its schedule does not repeat, or is
// too short for a shorter one to be worth a try.
std::optional<ShorterStep> ShorterStepOf(const plan::Plan& plan);

// The scenario with the shorter step in the place of its own.
scenario::Scenario Shortened(const scenario::Scenario& scenario, const ShorterStep& step);

// The operations whose records say whether a step repeats itself. A stage's program is cut where
// the micro-batches of ShorterStep::repeated end; each piece between two cuts has one such
// operation for each stream, the last one on it.
class RepeatedOperations {
 public:
  // `priced` are the classes of the shorter step.
  RepeatedOperations(const std::vector<PricedClass>& priced, const ShorterStep& step);

  // The cuts in a priced class's program: the last operation of each of these micro-batches.
  std::span<const program::Index> EndsOf(std::size_t priced) const { return ends_[priced]; }
  // The longer step, seen from the shorter one's program.
  program::LongerStep LongerOf(std::size_t priced) const;
  // The operations of a priced class, piece by piece and within each stream by stream. A stream
  // that has no operation in a piece has kNone there.
  const std::vector<program::Index>& Of(std::size_t priced) const { return of_[priced]; }

 private:
  std::vector<std::vector<program::Index>> ends_, of_;  // by priced class
  int period_;
  std::int64_t left_out_;
};

// How the described step of a run repeats itself.
struct StepPeriod {
  // The stretch of a class's run that the longer step has more of, and how often.
  MoreTime More(std::size_t rank_class, const ShorterStep& step) const {
    return {.begin = begins[rank_class], .length = length, .times = step.left_out};
  }

  Time length;
  std::vector<Time> begins;  // [class of SimulatedRanks] it does for a period at least from here on
};

// The run of a shorter step, the simulator's last, in which all classes have recorded `operations`.
struct ShorterRun {
  const simulate::Simulator& simulator;
  const SteadyRun& run;
  const SimulatedRanks& ranks;
  std::span<const PricedClass> priced;
  const RepeatedOperations& operations;
  bool barrier = false;      // between steps
  bool needs_hosts = false;  // memory depends on when hosts issue frees
};

// None where the step does not repeat itself, or where that cannot be told: where steps do not
// repeat one another, or a host that is not always as far ahead matters.
std::optional<StepPeriod> PeriodOf(const ShorterRun& shorter, const ShorterStep& step);

}  // namespace stepcast::forecast
