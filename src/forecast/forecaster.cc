#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/cost/price.h"
#include "src/forecast/class_time.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/forecast/forecast_parts.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/step_clock.h"
#include "src/forecast/training_run.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"

// Rows of sweeps.
namespace stepcast::forecast {

namespace {

using program::Program;

// A row in the making: Make runs its parts in their order, once.
class Row {
 public:
  Row(const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
      const std::vector<memory::DeferredFrees>& frees, bool with_range, const ShorterStep* shorter,
      simulate::Simulator& simulator, memory::Replayer& replayer)
      : scenario_(scenario),
        kinds_(scenario),
        priced_(priced),
        frees_(frees),
        barrier_(scenario.plan.training.step_barrier),
        with_range_(with_range),
        shorter_(shorter),
        simulator_(simulator),
        replayer_(replayer) {}

  // None: the shorter step does not tell what the scenario's does.
  Result<std::optional<Forecast>> Make(const MicroBatchFlops& flops) {
    if (shorter_ != nullptr && OutlastsTheClock(priced_, *shorter_)) {
      return std::optional<Forecast>();
    }
    auto ranks = SimulatedRanksOf(scenario_, priced_, FirstSteps(barrier_));
    if (!ranks) return tl::unexpected(ranks.error());
    ranks_ = *std::move(ranks);
    if (!RunSteps()) return std::optional<Forecast>();
    forecast_.step_time = StepTimeOf(run_.ends, run_.steady);
    if (period_) forecast_.step_time += shorter_->left_out * period_->length;
    FindCritical();
    if (!AddMemory()) return std::optional<Forecast>();
    if (stops_ && shorter_ != nullptr) return std::optional<Forecast>();
    if (with_range_) AddRange();
    // An allocator that gives memory back stops the device where it does.
    if (stops_) {
      const auto stops =
          AllocatorStopsOf(scenario_, priced_, calls_, forecast_.step_time, simulator_);
      if (!stops) return tl::unexpected(stops.error());
      AddAllocatorStops(*stops, forecast_);
    }
    FillThroughput(scenario_, flops, forecast_);
    ApplyRuns(scenario_, forecast_);
    if (with_range_) WidenByHost();
    DoubtAssumedKernel(scenario_, forecast_);
    return std::optional<Forecast>(std::move(forecast_));
  }

 private:
  // False: the shorter step does not repeat itself.
  bool RunSteps() {
    if (shorter_ != nullptr) repeated_.emplace(priced_, *shorter_);
    marked_.emplace(priced_, frees_, repeated_ ? &*repeated_ : nullptr);
    marked_->MarkIn(ranks_);
    if (with_range_) {
      const ReportedClass& first = ranks_.reported.front();
      all_.assign(priced_[first.priced].program.step.size(), true);
      ranks_.classes[first.index].marked = &all_;
    }
    const auto recording =
        marked_->any() || with_range_ ? simulate::Recording::kMarked : simulate::Recording::kNone;
    run_ = marked_->for_memory() ? RunForMemory(simulator_, ranks_, barrier_, recording, false)
                                 : RunToSteadyState(simulator_, ranks_, barrier_, recording,
                                                    Extent::kLateStart, false);
    if (shorter_ == nullptr) return true;
    period_ = PeriodOf({.simulator = simulator_,
                        .run = run_,
                        .ranks = ranks_,
                        .priced = priced_,
                        .operations = *repeated_,
                        .barrier = barrier_,
                        .needs_hosts = marked_->for_memory()},
                       *shorter_);
    return period_.has_value();
  }

  void FindCritical() {
    const auto own_end = [&](std::size_t reported) {
      return run_.timelines[ranks_.reported[reported].index].step_ends[run_.steady.last];
    };
    for (std::size_t i = 1; i < ranks_.reported.size(); ++i) {
      if (own_end(i) > own_end(critical_)) critical_ = i;
    }
  }

  // False: the shorter step does not tell the longer one's memory.
  bool AddMemory() {
    memory::Steps steps = StepsOfMemory(run_);
    calls_.resize(priced_.size());
    for (const ReportedClass& reported : ranks_.reported) {
      const Program& program = priced_[reported.priced].program;
      const scenario::Scenario& on = kinds_[reported.node_kind];
      if (period_) {
        steps.longer = repeated_->LongerOf(reported.priced);
        steps.period = period_->length;
      }
      memory::Usage own = replayer_.Figures(program, run_.timelines[reported.index],
                                            frees_[reported.priced], DeviceOf(on, program), steps);
      if (shorter_ != nullptr && !own.of_longer) return false;
      MemoryForecast figures = SummariseMemory(on, program, own);
      calls_[reported.priced] = std::move(own.step_calls);
      stops_ = stops_ || !calls_[reported.priced].empty();
      figures.rank = reported.first_rank;
      const bool first = &reported == &ranks_.reported.front();
      if (first) forecast_.memory_of_first_class = figures;
      if (&reported == &ranks_.reported.back()) forecast_.memory_of_last_class = figures;
      if (first || Fuller(figures, forecast_.memory)) forecast_.memory = std::move(figures);
    }
    return true;
  }

  void AddRange() {
    const std::size_t ranged = RangedClass(ranks_, critical_);
    const ReportedClass& reported = ranks_.reported[ranged];
    if (ranged != 0) {
      for (std::size_t i = 0; i < ranks_.classes.size(); ++i) {
        ranks_.classes[i].records = i == reported.index;
      }
      run_ = RunAgain(simulator_, ranks_, barrier_, simulate::Recording::kAll, run_);
    }
    TimedClass timed{priced_[reported.priced].program, *ranks_.classes[reported.index].prices,
                     run_.timelines[reported.index]};
    if (period_) timed.more = period_->More(reported.index, *shorter_);
    forecast_.step_time_range =
        RangeOf(ExposedTimesOf(timed, run_), forecast_.step_time,
                *kinds_[reported.node_kind].calibration, scenario_.cluster->devices());
  }

  void WidenByHost() {
    const ReportedClass& last = ranks_.reported[critical_];
    const Program& program = priced_[last.priced].program;
    const StepCounts counts(program,
                            repeated_ ? repeated_->LongerOf(last.priced) : program::LongerStep{});
    WidenByUnknownHost(scenario_, program, counts, *ranks_.classes[last.index].prices, forecast_);
    WidenByKnownGap(scenario_, forecast_);
  }

  const scenario::Scenario& scenario_;
  const KindScenarios kinds_;
  const std::vector<PricedClass>& priced_;
  const std::vector<memory::DeferredFrees>& frees_;
  const bool barrier_, with_range_;
  const ShorterStep* const shorter_;
  simulate::Simulator& simulator_;
  memory::Replayer& replayer_;
  SimulatedRanks ranks_;
  std::optional<RepeatedOperations> repeated_;
  std::optional<MarkedOperations> marked_;
  std::vector<bool> all_;  // marks of the first class for the range
  SteadyRun run_;
  std::optional<StepPeriod> period_;
  std::size_t critical_ = 0;  // of the reported classes: the one that ends last
  std::vector<std::vector<memory::DriverCallsAt>> calls_;  // [priced class] of its allocator
  bool stops_ = false;                                     // there are some
  Forecast forecast_;
};

}  // namespace

struct Forecaster::Workspace {
  WorkCache works;
  cost::PriceCache prices;
  simulate::Simulator simulator;
  memory::Replayer memory;

  // The classes of a scenario, and the frees of each that the allocator defers.
  struct Classes {
    std::vector<PricedClass> priced;
    std::vector<memory::DeferredFrees> frees;  // [priced class]
  };

  // Of all classes of forecasts that shorter steps did not tell, since it was last given back.
  std::size_t instructions = 0;

  Result<Classes> ClassesOf(const scenario::Scenario& scenario);
  // `shorter`: the step that these classes are of, in the place of the scenario's; null: its own.
  // None: the shorter one does not tell what the scenario's does.
  Result<std::optional<Forecast>> Evaluate(const scenario::Scenario& scenario,
                                           const std::vector<PricedClass>& priced,
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
  // What operations use is looked at for deferred frees alone: a third of a long step's memory.
  classes.priced = UnpricedClasses(scenario, kinds, &work->layers, [&](program::Program& lowered) {
    classes.frees.emplace_back(lowered);
    lowered.uses = std::vector<program::BufferUse>();  // {} would keep its memory
  });
  for (PricedClass& own : classes.priced) {
    const scenario::Scenario& on = kinds[own.node_kind];
    auto price = prices.Price(own.program, on, work->layers);
    if (!price) return tl::unexpected(std::move(price.error()));
    own.prices = std::move(*price);
    AddJitter(on, own.program, own.prices);
    if (auto checked = CheckClock(scenario, own); !checked) {
      return tl::unexpected(std::move(checked.error()));
    }
  }
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
    auto forecast = workspace_->Evaluate(scenario, classes->priced, classes->frees, flops,
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
      workspace_->Evaluate(scenario, classes->priced, classes->frees, flops, with_range);
  if (!forecast) return tl::unexpected(std::move(forecast.error()));
  for (const PricedClass& own : classes->priced) {
    workspace_->instructions += own.program.step.size();
  }
  return **std::move(forecast);
}

void Forecaster::GiveBack() {
  constexpr std::size_t kMostKept = 3'000'000;
  if (std::exchange(workspace_->instructions, 0) < kMostKept) return;
  workspace_->simulator = {};
  workspace_->memory = {};
#ifdef __GLIBC__
  // Else an arena keeps what lies below something small that lives on.
  malloc_trim(0);
#endif
}

Result<Forecast> Forecaster::EvaluateAt(const scenario::Scenario& scenario,
                                        const std::vector<PricedClass>& classes) {
  auto forecast = workspace_->Evaluate(scenario, classes, FreesOf(classes),
                                       workspace_->works.Of(scenario)->flops, false);
  if (!forecast) return tl::unexpected(std::move(forecast.error()));
  return **std::move(forecast);
}

Result<std::optional<Forecast>> Forecaster::Workspace::Evaluate(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
    const std::vector<memory::DeferredFrees>& frees, const MicroBatchFlops& flops, bool with_range,
    const ShorterStep* shorter) {
  return Row(scenario, priced, frees, with_range, shorter, simulator, memory).Make(flops);
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
