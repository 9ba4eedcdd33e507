#include "src/forecast/forecast.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/cost/price.h"
#include "src/forecast/allocator_stops.h"
#include "src/forecast/class_time.h"
#include "src/forecast/collective_summaries.h"
#include "src/forecast/forecast_parts.h"
#include "src/forecast/host_costs.h"
#include "src/forecast/learned.h"
#include "src/forecast/marked_operations.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/padded_lengths.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/step_clock.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/model/model.h"
#include "src/program/validator.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {
namespace {

using program::Timeline;

// When the host had issued all of a step: at a barrier it waits from then on.
Time LastIssue(const Timeline& timeline, std::uint32_t step) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return last;
}

// As seen in a run in which steps end at other times.
void Shift(Time later, std::vector<memory::Change>& changes) {
  for (memory::Change& change : changes) {
    if (change.instruction != program::kNone) change.time += later;
  }
}

// `shorter`: the step that these classes are of, in the place of the scenario's; null: its own.
// None: the shorter one does not tell what the scenario's does.
Result<std::optional<Run>> SimulateAs(const scenario::Scenario& scenario,
                                      std::vector<PricedClass> lowered, Detail detail,
                                      const ShorterStep* shorter) {
  if (shorter != nullptr && OutlastsTheClock(lowered, *shorter)) return std::optional<Run>();
  const KindScenarios kinds(scenario);
  std::optional<RepeatedOperations> repeated;
  if (shorter != nullptr) repeated.emplace(lowered, *shorter);
  std::vector<program::LongerStep> longer(lowered.size());
  std::vector<StepCounts> counts;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    if (repeated) longer[i] = repeated->LongerOf(i);
    counts.emplace_back(lowered[i].lowered.program, longer[i]);
    if (auto checked = CheckClock(scenario, lowered[i]); !checked) {
      return tl::unexpected(std::move(checked.error()));
    }
  }
  const bool barrier = scenario.plan.training.step_barrier;
  auto ranks = SimulatedRanksOf(scenario, lowered, FirstSteps(barrier));
  if (!ranks) return tl::unexpected(ranks.error());
  const std::vector<memory::DeferredFrees> frees = FreesOf(lowered);
  const MarkedOperations marked(lowered, frees, repeated ? &*repeated : nullptr);
  marked.MarkIn(*ranks);
  simulate::Simulator simulator;
  const bool whole = shorter == nullptr;
  const SteadyRun steady_run = RunToSteadyState(
      simulator, *ranks, barrier, simulate::Recording::kAll,
      whole ? Extent::kWhole : Extent::kLateStart, false,
      whole && detail == Detail::kFigures ? RecordedSteps::kFromDescribed : RecordedSteps::kAll);
  std::optional<StepPeriod> period;
  if (!whole) {
    period = PeriodOf({.simulator = simulator,
                       .run = steady_run,
                       .ranks = *ranks,
                       .lowered = lowered,
                       .operations = *repeated,
                       .barrier = barrier,
                       .needs_hosts = marked.for_memory()},
                      *shorter);
    if (!period) return std::optional<Run>();
  }
  const SteadyState& steady = steady_run.steady;
  std::vector<Timeline> timelines = simulator.Take();
  std::optional<SteadyRun> of_memory;
  if (marked.for_memory() && MayBeShort(*ranks, barrier)) {
    of_memory =
        RunForMemory(simulator, *ranks, barrier, simulate::Recording::kMarked, /*again=*/true);
  }
  memory::Steps steps_of_run = StepsOfMemory(steady_run);
  memory::Steps steps_of_deferred = of_memory ? StepsOfMemory(*of_memory) : steps_of_run;
  std::vector<Timeline> memory_timelines;
  if (of_memory) memory_timelines = simulator.Take();
  simulator = simulate::Simulator();  // it has the programs once more, in its own form
  std::vector<std::size_t> still_shown(lowered.size(), 0);
  for (const SimulatedRanks::Shown& shown : ranks->shown) ++still_shown[shown.lowered];

  Run run;
  run.first_step = steady.last;
  std::vector<Forecast> figures;  // by class: of its time and memory
  std::vector<std::vector<memory::DriverCallsAt>> calls(lowered.size());
  bool stops = false;
  std::vector<Time> own_ends;
  memory::Replayer replayer;
  for (const SimulatedRanks::Shown& shown : ranks->shown) {
    const simulate::RankClass& simulated = ranks->classes[shown.index];
    lowering::LoweredClass& of = lowered[shown.lowered].lowered;
    const bool last = --still_shown[shown.lowered] == 0;
    const scenario::Scenario& on = kinds[lowered[shown.lowered].kind];
    ClassRun& own =
        run.classes.emplace_back(ClassRun{.stage = of.stage,
                                          .in_flight = of.in_flight,
                                          .first_rank = simulated.representative,
                                          .ranks = shown.ranks,
                                          .members = shown.members,
                                          .speed = shown.speed,
                                          .device = kinds.count() > 1 ? on.gpu->name : "",
                                          .program = last ? std::move(of.program) : of.program,
                                          .prices = *simulated.prices,
                                          .timeline = std::move(timelines[shown.index])});
    own_ends.push_back(own.timeline.step_ends[steady.last]);
    own.timeline.step_ends = steady_run.ends;
    own.host_waits = barrier ? LastIssue(own.timeline, steady.last) : steady_run.ends[steady.last];
    // What is freed in host order needs no times, and has none in a run that marks what others do.
    const bool deferred = of_memory && frees[shown.lowered].any();
    const Timeline& timeline = deferred ? memory_timelines[shown.index] : own.timeline;
    memory::Steps& steps = deferred ? steps_of_deferred : steps_of_run;
    if (!whole) steps.longer = longer[shown.lowered];
    const memory::Device device = DeviceOf(on, own.program);
    if (detail == Detail::kFigures) {
      own.memory.usage =
          replayer.Figures(own.program, timeline, frees[shown.lowered], device, steps);
      if (!own.memory.usage.of_longer) return std::optional<Run>();
    } else {
      own.memory = memory::Record(own.program, timeline, device, steps);
      if (deferred) {
        Shift(steady_run.ends[steps.described] - of_memory->ends[steps.described],
              own.memory.changes);
      }
    }
    Forecast& forecast = figures.emplace_back();
    TimedClass timed{own.program, own.prices, own.timeline};
    if (period) timed.more = period->More(shown.index, *shorter);
    SummariseTime(timed, steady, own.host_waits, *on.calibration, on.cluster->devices(), forecast);
    forecast.memory = SummariseMemory(on, own.program, own.memory.usage);
    forecast.memory.rank = own.first_rank;
    calls[shown.lowered] = own.memory.usage.step_calls;
    stops = stops || !calls[shown.lowered].empty();
  }
  for (std::size_t i = 1; i < run.classes.size(); ++i) {
    if (own_ends[i] > own_ends[run.critical]) run.critical = i;
    if (Fuller(figures[i].memory, figures[run.fullest].memory)) run.fullest = i;
  }
  run.forecast = figures[run.critical];
  run.forecast.step_time_range =
      figures[RangedClass(*ranks, lowered, run.critical)].step_time_range;
  run.forecast.memory = figures[run.fullest].memory;
  run.forecast.memory_of_first_class = figures.front().memory;
  run.forecast.memory_of_last_class = figures.back().memory;
  for (std::size_t i = 0; run.classes.size() > 1 && i < run.classes.size(); ++i) {
    const ClassRun& own = run.classes[i];
    run.forecast.classes.push_back({.stage = own.stage,
                                    .in_flight = own.in_flight,
                                    .first_rank = own.first_rank,
                                    .ranks = own.ranks,
                                    .speed = own.speed,
                                    .device = own.device,
                                    .time = figures[i].time,
                                    .memory = figures[i].memory});
  }
  const ClassRun& critical = run.critical_class();
  run.forecast.collectives = SummariseCollectives(
      critical.program, critical.prices, counts[ranks->shown[run.critical].lowered],
      critical.timeline, steady.last, longer[ranks->shown[run.critical].lowered]);
  // An allocator that gives memory back stops the device where it does.
  if (stops && !whole) return std::optional<Run>();
  if (stops) {
    for (std::size_t i = 0; i < run.classes.size(); ++i) {
      lowered[ranks->shown[i].lowered].lowered.program = run.classes[i].program;
    }
    const auto time = TimeOfAllocatorStops(scenario, std::move(lowered), calls,
                                           run.forecast.step_time, simulator);
    if (!time) return tl::unexpected(time.error());
    AddAllocatorStops(*time, run.forecast);
  }
  FillThroughput(scenario, run.forecast);
  ApplyRuns(scenario, run.forecast);
  WidenByUnknownHost(scenario, critical.program, counts[ranks->shown[run.critical].lowered],
                     critical.prices, run.forecast);
  return std::optional<Run>(std::move(run));
}

}  // namespace

const ClassRun& Run::class_of(int rank) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassRun& own) {
    return own.members.empty() || std::binary_search(own.members.begin(), own.members.end(), rank);
  });
  STEPCAST_CHECK(found != classes.end(), "every rank is of a class");
  return *found;
}

namespace {

Result<Forecast> FiguresOfLengths(const scenario::Scenario& scenario) {
  const PaddedLengths lengths(scenario);
  std::vector<Forecast> forecasts;
  for (const scenario::Scenario& alike : lengths.scenarios()) {
    auto forecast = FiguresOf(alike);
    if (!forecast) return forecast;
    forecasts.push_back(*std::move(forecast));
  }
  return lengths.Combine(forecasts, [](const scenario::Scenario& alike) {
    return FlopsOf(alike, model::BuildWork(*alike.model, plan::WorkOptionsOf(alike.plan)));
  });
}

}  // namespace

Diagnostics SeveralLengths(const scenario::Scenario& scenario, std::string message) {
  return {{.code = "forecast.several-lengths",
           .location = {"training.lengths", 0, 0},
           .message = std::move(message),
           .hint = fmt::format("look at steps of one length: --set training.lengths=null, which "
                               "leaves sequence_length {}, the longest",
                               scenario.plan.training.sequence_length)}};
}

Result<Run> Simulate(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    auto run = Simulate(PaddedLengths::Longest(scenario));
    if (!run) return run;
    auto forecast = FiguresOfLengths(scenario);
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    run->forecast = *std::move(forecast);
    return run;
  }
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  return SimulateAt(scenario, *std::move(classes));
}

Result<Forecast> FiguresOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) return FiguresOfLengths(scenario);
  if (const auto shorter = ShorterStepOf(scenario.plan)) {
    auto classes = PricedClassesOf(Shortened(scenario, *shorter));
    if (!classes) return tl::unexpected(std::move(classes.error()));
    auto run = SimulateAs(scenario, *std::move(classes), Detail::kFigures, &*shorter);
    if (!run) return tl::unexpected(std::move(run.error()));
    if (*run) return std::move((*run)->forecast);
  }
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  auto run = SimulateAt(scenario, *std::move(classes), Detail::kFigures);
  if (!run) return tl::unexpected(std::move(run.error()));
  return std::move(run->forecast);
}

Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario) {
  if (scenario.plan.training.has_padded_lengths()) {
    return tl::unexpected(
        SeveralLengths(scenario, "one step is looked at, and its micro-batches differ in length"));
  }
  std::vector<PricedClass> classes;
  const KindScenarios kinds(scenario);
  for (int kind = 0; kind < kinds.count(); ++kind) {
    for (lowering::LoweredClass& own : lowering::Lower(kinds[kind])) {
      const auto violations = program::Validate(own.program);
      for (const program::Violation& violation : violations) {
        std::fprintf(stderr, "%s\n", violation.message.c_str());
      }
      STEPCAST_CHECK(violations.empty(), "a lowered program has no race and no leak");
      auto prices = cost::Price(own.program, kinds[kind]);
      if (!prices) return tl::unexpected(std::move(prices.error()));
      AddJitter(kinds[kind], own.program, *prices);
      classes.push_back({.lowered = std::move(own), .prices = std::move(*prices), .kind = kind});
    }
  }
  return classes;
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> lowered,
                       Detail detail) {
  auto run = SimulateAs(scenario, std::move(lowered), detail, nullptr);
  if (!run) return tl::unexpected(std::move(run.error()));
  return **std::move(run);
}

}  // namespace stepcast::forecast
