#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/cost/price.h"
#include "src/forecast/allocator_stops.h"
#include "src/forecast/class_time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/forecast_parts.h"
#include "src/forecast/host_costs.h"
#include "src/forecast/learned.h"
#include "src/forecast/marked_operations.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/step_clock.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/forecast/work_cache.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"

// Rows of sweeps.
namespace stepcast::forecast {

using program::Program;

struct Forecaster::Workspace {
  WorkCache works;
  cost::PriceCache prices;
  simulate::Simulator simulator;
  memory::Replayer memory;

  // What is simulated of a scenario, and what it asks of the allocator.
  struct Classes {
    std::vector<PricedClass> lowered;
    std::vector<memory::DeferredFrees> frees;  // by lowered class
  };

  Result<Classes> ClassesOf(const scenario::Scenario& scenario);
  // `frees`: by lowered class. `shorter`: the step that these classes are of, in the place of the
  // scenario's; null: its own. None: the shorter one does not tell what the scenario's does.
  Result<std::optional<Forecast>> Evaluate(const scenario::Scenario& scenario,
                                           const std::vector<PricedClass>& lowered,
                                           const std::vector<memory::DeferredFrees>& frees,
                                           const MicroBatchFlops& flops, bool with_range,
                                           const ShorterStep* shorter = nullptr);
};

Forecaster::Forecaster() : workspace_(std::make_unique<Workspace>()) {}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario) {
  return Evaluate(scenario, false);
}

Result<Forecast> Forecaster::EvaluateWithRange(const scenario::Scenario& scenario) {
  return Evaluate(scenario, true);
}

Result<Forecaster::Workspace::Classes> Forecaster::Workspace::ClassesOf(
    const scenario::Scenario& scenario) {
  const auto work = works.Of(scenario);
  Classes classes;
  const KindScenarios kinds(scenario);
  for (int kind = 0; kind < kinds.count(); ++kind) {
    for (lowering::LoweredClass& own : lowering::Lower(kinds[kind], &work->layers)) {
      classes.lowered.push_back({.lowered = std::move(own), .prices = {}, .kind = kind});
      PricedClass& made = classes.lowered.back();
      auto price = prices.Price(made.lowered.program, kinds[kind], work->layers);
      if (!price) return tl::unexpected(std::move(price.error()));
      made.prices = std::move(*price);
      AddJitter(kinds[kind], made.lowered.program, made.prices);
      if (auto checked = CheckClock(scenario, made); !checked) {
        return tl::unexpected(std::move(checked.error()));
      }
    }
  }
  classes.frees = FreesOf(classes.lowered);
  // Nothing else of a row looks at what operations use: a fifth of a long step's memory.
  for (PricedClass& own : classes.lowered) own.lowered.program.uses = {};
  return classes;
}

Result<Forecast> Forecaster::EvaluateLengths(const scenario::Scenario& scenario, bool with_range) {
  const PaddedLengths lengths(scenario);
  std::vector<Forecast> forecasts;
  for (const scenario::Scenario& alike : lengths.scenarios()) {
    auto forecast = Evaluate(alike, with_range);
    if (!forecast) return forecast;
    forecasts.push_back(*std::move(forecast));
  }
  return lengths.Combine(forecasts, [this](const scenario::Scenario& alike) {
    return workspace_->works.Of(alike)->flops;
  });
}

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario, bool with_range) {
  if (scenario.plan.training.has_padded_lengths()) return EvaluateLengths(scenario, with_range);
  const MicroBatchFlops flops = workspace_->works.Of(scenario)->flops;
  if (const auto shorter = ShorterStepOf(scenario.plan)) {
    const auto classes = workspace_->ClassesOf(Shortened(scenario, *shorter));
    if (!classes) return tl::unexpected(classes.error());
    auto forecast = workspace_->Evaluate(scenario, classes->lowered, classes->frees, flops,
                                         with_range, &*shorter);
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    if (*forecast) {
      ++shortened_;
      return **std::move(forecast);
    }
  }
  const auto classes = workspace_->ClassesOf(scenario);
  if (!classes) return tl::unexpected(classes.error());
  auto forecast =
      workspace_->Evaluate(scenario, classes->lowered, classes->frees, flops, with_range);
  if (!forecast) return tl::unexpected(std::move(forecast.error()));
  return **std::move(forecast);
}

Result<Forecast> Forecaster::EvaluateAt(const scenario::Scenario& scenario,
                                        const std::vector<PricedClass>& classes) {
  auto forecast = workspace_->Evaluate(scenario, classes, FreesOf(classes),
                                       workspace_->works.Of(scenario)->flops, false);
  if (!forecast) return tl::unexpected(std::move(forecast.error()));
  return **std::move(forecast);
}

Result<std::optional<Forecast>> Forecaster::Workspace::Evaluate(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& lowered,
    const std::vector<memory::DeferredFrees>& frees, const MicroBatchFlops& flops, bool with_range,
    const ShorterStep* shorter) {
  if (shorter != nullptr && OutlastsTheClock(lowered, *shorter)) return std::optional<Forecast>();
  const KindScenarios kinds(scenario);
  const bool barrier = scenario.plan.training.step_barrier;
  auto ranks = SimulatedRanksOf(scenario, lowered, FirstSteps(barrier));
  if (!ranks) return tl::unexpected(ranks.error());

  std::optional<RepeatedOperations> repeated;
  if (shorter != nullptr) repeated.emplace(lowered, *shorter);
  const MarkedOperations marked(lowered, frees, repeated ? &*repeated : nullptr);
  marked.MarkIn(*ranks);
  std::vector<bool> all;  // for the range
  if (with_range) {
    const SimulatedRanks::Shown& first = ranks->shown.front();
    all.assign(lowered[first.lowered].lowered.program.step.size(), true);
    ranks->classes[first.index].marked = &all;
  }
  const auto recording =
      marked.any() || with_range ? simulate::Recording::kMarked : simulate::Recording::kNone;
  SteadyRun run = marked.for_memory() ? RunForMemory(simulator, *ranks, barrier, recording, false)
                                      : RunToSteadyState(simulator, *ranks, barrier, recording,
                                                         Extent::kLateStart, false);
  std::optional<StepPeriod> period;
  if (shorter != nullptr) {
    period = PeriodOf({.simulator = simulator,
                       .run = run,
                       .ranks = *ranks,
                       .lowered = lowered,
                       .operations = *repeated,
                       .barrier = barrier,
                       .needs_hosts = marked.for_memory()},
                      *shorter);
    if (!period) return std::optional<Forecast>();
  }
  memory::Steps steps = StepsOfMemory(run);

  Forecast forecast;
  forecast.step_time = StepTimeOf(run.ends, run.steady);
  if (period) forecast.step_time += shorter->left_out * period->length;
  std::vector<std::vector<memory::DriverCallsAt>> calls(lowered.size());
  bool stops = false;
  std::size_t critical = 0;  // of those shown
  const auto own_end = [&](std::size_t shown) {
    return run.timelines[ranks->shown[shown].index].step_ends[run.steady.last];
  };
  for (std::size_t i = 1; i < ranks->shown.size(); ++i) {
    if (own_end(i) > own_end(critical)) critical = i;
  }
  for (const SimulatedRanks::Shown& shown : ranks->shown) {
    const Program& program = lowered[shown.lowered].lowered.program;
    const scenario::Scenario& on = kinds[lowered[shown.lowered].kind];
    if (repeated) steps.longer = repeated->LongerOf(shown.lowered);
    memory::Usage own = memory.Figures(program, run.timelines[shown.index], frees[shown.lowered],
                                       DeviceOf(on, program), steps);
    if (shorter != nullptr && !own.of_longer) return std::optional<Forecast>();
    MemoryForecast figures = SummariseMemory(on, program, own);
    calls[shown.lowered] = std::move(own.step_calls);
    stops = stops || !calls[shown.lowered].empty();
    figures.rank = ranks->classes[shown.index].representative;
    if (&shown == &ranks->shown.front()) forecast.memory_of_first_class = figures;
    if (&shown == &ranks->shown.back()) forecast.memory_of_last_class = figures;
    if (&shown != &ranks->shown.front() && !Fuller(figures, forecast.memory)) continue;
    forecast.memory = std::move(figures);
  }
  // An allocator that gives memory back stops the device where it does.
  if (stops && shorter != nullptr) return std::optional<Forecast>();
  if (with_range) {
    const std::size_t ranged = RangedClass(*ranks, lowered, critical);
    const PricedClass& own = lowered[ranks->shown[ranged].lowered];
    const std::size_t simulated = ranks->shown[ranged].index;
    if (ranged != 0) {
      for (std::size_t i = 0; i < ranks->classes.size(); ++i) {
        ranks->classes[i].records = i == simulated;
      }
      run = RunAgain(simulator, *ranks, barrier, simulate::Recording::kAll, run);
    }
    TimedClass timed{own.lowered.program, *ranks->classes[simulated].prices,
                     run.timelines[simulated]};
    if (period) timed.more = period->More(simulated, *shorter);
    const PartTimes exposed = ExposedTimesOf(timed, run);
    forecast.step_time_range = RangeOf(exposed, forecast.step_time, *kinds[own.kind].calibration,
                                       scenario.cluster->devices());
  }
  if (stops) {
    const auto time = TimeOfAllocatorStops(scenario, lowered, calls, forecast.step_time, simulator);
    if (!time) return tl::unexpected(time.error());
    AddAllocatorStops(*time, forecast);
  }
  FillThroughput(scenario, flops, forecast);
  ApplyRuns(scenario, forecast);
  if (with_range) {
    const SimulatedRanks::Shown& last = ranks->shown[critical];
    const PricedClass& own = lowered[last.lowered];
    WidenByUnknownHost(scenario, own.lowered.program,
                       StepCounts(own.lowered.program, repeated ? repeated->LongerOf(last.lowered)
                                                                : program::LongerStep{}),
                       *ranks->classes[last.index].prices, forecast);
  }
  return std::optional<Forecast>(std::move(forecast));
}

std::optional<UnknownHost> UnknownHostOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.dispatch_known || scenario.calibration == nullptr ||
      scenario.calibration->frameworks == nullptr) {
    return std::nullopt;
  }
  auto forecast = Forecaster().EvaluateWithRange(scenario);
  return forecast ? std::move(forecast->unknown_host) : std::nullopt;
}

}  // namespace stepcast::forecast
