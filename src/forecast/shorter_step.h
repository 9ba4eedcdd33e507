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

// Simulates a step of few micro-batches instead of many. Between the fill and drain phases of its
// pipeline, a step is periodic: each micro-batch ends one period after the previous one, on every
// stream of every rank. Each omitted period therefore adds one period to the step time. Every run
// of a shorter step is checked for this periodicity, and is not used if the check fails. Memory is
// computed by replaying the shorter step's requests as often as in the longer step
// (memory/replay.h).
namespace stepcast::forecast {

struct ShorterStep {
  std::int64_t micro_batches = 0;  // micro-batches of the shorter step
  int period = 1;                  // number of micro-batches after which the schedule repeats
  std::int64_t left_out = 0;       // number of omitted periods
  // For each stage, the micro-batches that must end one period after the micro-batches of the
  // previous period.
  std::vector<parallel::MicroBatchRange> repeated{};
};

// Returns the shorter step for a plan. None if the schedule is not periodic, or if the step is
// already short.
std::optional<ShorterStep> ShorterStepOf(const plan::Plan& plan);

// Returns the scenario with its step replaced by the shorter step.
scenario::Scenario Shortened(const scenario::Scenario& scenario, const ShorterStep& step);

// The operations whose recorded times show whether a step is periodic. A stage's program is divided
// at the ends of the micro-batches in ShorterStep::repeated. In each piece, the last operation on
// each stream is recorded.
class RepeatedOperations {
 public:
  // `priced` are the classes of the shorter step.
  RepeatedOperations(const std::vector<PricedClass>& priced, const ShorterStep& step);

  // Returns the instructions after which the program of a priced class is divided: the last
  // operation of each micro-batch in ShorterStep::repeated.
  std::span<const program::Index> EndsOf(std::size_t priced) const { return ends_[priced]; }
  // Returns the longer step that the shorter step's program represents.
  program::LongerStep LongerOf(std::size_t priced) const;
  // Returns the recorded operations of a priced class, by piece, then by stream. kNone: the stream
  // has no operation in the piece.
  const std::vector<program::Index>& Of(std::size_t priced) const { return of_[priced]; }

 private:
  std::vector<std::vector<program::Index>> ends_, of_;  // indexed by priced class
  int period_;
  std::int64_t left_out_;
};

// The period in a run of a shorter step.
struct StepPeriod {
  // Returns the part of a class's run that the longer step repeats, and how often.
  MoreTime More(std::size_t rank_class, const ShorterStep& step) const {
    return {.begin = begins[rank_class], .length = length, .times = step.left_out};
  }

  Time length;
  std::vector<Time> begins;  // indexed by class of SimulatedRanks: start of a period
};

// A run of a shorter step: the simulator's last run, with `operations` recorded in all classes.
struct ShorterRun {
  const simulate::Simulator& simulator;
  const SteadyRun& run;
  const SimulatedRanks& ranks;
  std::span<const PricedClass> priced;
  const RepeatedOperations& operations;
  bool barrier = false;      // whether there is a barrier between steps
  bool needs_hosts = false;  // whether memory depends on when hosts issue frees
};

// Returns the period of a run. None if the step is not periodic or if the run does not prove that
// it is: successive steps differ, or a host's varying lead over its device matters.
std::optional<StepPeriod> PeriodOf(const ShorterRun& shorter, const ShorterStep& step);

}  // namespace stepcast::forecast
