#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/scenario/scenario.h"

// A scenario's forecast: lower it, price it, run it until its steps repeat, and say where the time
// and the memory go. The one path behind simulate, memory, sweep and, later, plan.
namespace stepcast::forecast {

// A step's calls of each collective on each group, by collective, then group. `counts` are those of
// `longer`, the step that is meant; `step` is one that the timeline shows.
std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer = {});

// A class of ranks in a forecast: all that is behind its figures, for the trace, the page and the
// program dump. The prices are those of its devices; the trace says where each time comes from.
struct ClassRun : PricedClass {
  program::Timeline timeline{};  // of one of the ranks; its steps end when the last class's do
  memory::Account memory{};
  Time host_waits{};  // from here to the end of the step that is described the host waits at a
                      // barrier; that end without one
};

// Everything behind a forecast.
struct Run {
  Forecast forecast;
  std::vector<ClassRun> classes;  // by first rank; at least one
  std::size_t critical = 0;       // ends the step last: forecast.time is its
  std::size_t fullest = 0;        // does not fit, else has the highest peak: forecast.memory is its
  std::uint32_t first_step = 0;   // the step whose interval the forecast describes is
                                  // [step_ends[first_step - 1], step_ends[first_step]]

  const ClassRun& critical_class() const { return classes[critical]; }
  const ClassRun& fullest_class() const { return classes[fullest]; }
  const ClassRun& class_of(int rank) const;
};

// How much a forecast says. What two of them say is the same, to the picosecond and the byte.
enum class Detail : std::uint8_t {
  kStep,        // step time, throughput and memory
  kRange,       // and the range of the step time
  kTimes,       // and where the time goes, by class, and the collectives
  kEverything,  // and what is behind it: records of all steps, for traces and pages
};

// The scenario must be legal (scenario::Load). Errors: what cost::Price reports. Where
// micro-batches differ in length (padded_lengths.h) the forecast is the mean of steps; its classes,
// and what is behind them, are of steps of the longest micro-batches.
Result<Run> Simulate(const scenario::Scenario& scenario);

// Its forecast with Detail::kTimes: from a shorter step's where that tells what the scenario's does
// (shorter_step.h).
Result<Forecast> FiguresOf(const scenario::Scenario& scenario);

// The two halves of Simulate: what is simulated, and its simulation, also at other prices than the
// scenario's: what if something were faster. Errors, too: micro-batches that differ in length.
Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario);
Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> classes,
                       Detail detail = Detail::kEverything);

// The mistake of who looks at a step whose micro-batches all have one length.
Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message);

// Forecasts one scenario after another, for sweeps, searches and comparisons, in the same memory
// again and again: it keeps works, prices and replays by value, records no more than `detail` needs
// (at most Detail::kTimes), and does not validate programs. Not to be used by two threads at once.
class Forecaster {
 public:
  Forecaster();
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;
  Forecaster& operator=(Forecaster&&) noexcept;

  // The range is that of the first ranks, recorded operation by operation; where devices differ, of
  // those that end the step last, simulated once more for it.
  Result<Forecast> Evaluate(const scenario::Scenario& scenario, Detail detail = Detail::kStep);
  // Detail::kStep at other prices than the scenario's. `classes` are to stay where
  // they are until the next call.
  Result<Forecast> EvaluateAt(const scenario::Scenario& scenario,
                              const std::vector<PricedClass>& classes);

  // Gives the memory back to the system that long steps took, hundreds of megabytes for a pipeline.
  // Without a call it is kept for the next forecast. Several threads that forecast such steps now
  // and then need less memory together if each calls this behind a forecast.
  void GiveBack();

  // How many of them followed from shorter steps than the scenario's (shorter_step.h), to the
  // picosecond and the byte likewise.
  std::uint64_t shortened() const { return shortened_; }

 private:
  struct Workspace;
  Result<Forecast> EvaluateLengths(const scenario::Scenario& scenario, Detail detail);

  std::unique_ptr<Workspace> workspace_;
  std::uint64_t shortened_ = 0;
};

// Where the costs of the scenario's framework are not known and the host may bound the step: what
// the forecast's range says of it (corrections.h), for those who compare forecasts without ranges.
std::optional<UnknownHost> UnknownHostOf(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
