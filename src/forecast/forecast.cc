#include "src/forecast/forecast.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/kernel.h"
#include "src/cost/jitter.h"
#include "src/cost/price.h"
#include "src/cost/slowest_device.h"
#include "src/forecast/allocator_stops.h"
#include "src/forecast/collective_summaries.h"
#include "src/forecast/host_costs.h"
#include "src/forecast/learned.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/forecast/time_breakdown.h"
#include "src/forecast/uncertainty.h"
#include "src/forecast/work_cache.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/program/validator.h"
#include "src/scenario/node_kinds.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::Opcode;
using program::Program;
using program::Timeline;

// What each entry of a program's tables takes, issuing it included: calls `take` with the table of
// StepCounts, the operand and the time.
template <typename Take>
void ForEachTime(const Program& program, const cost::Prices& prices, Take take) {
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    take(&StepCounts::kernels, i, prices.kernels[i].alone() + prices.IssueOf(program.kernels[i]));
  }
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    take(&StepCounts::collectives, i,
         prices.collectives[i].demand.alone() + prices.issue_collective);
  }
  for (std::size_t i = 0; i < program.exchanges.size(); ++i) {
    Time messages = prices.issue_collective;
    for (const cost::MessagePrice& message : prices.exchanges[i]) {
      messages += message.demand.alone();
    }
    take(&StepCounts::exchanges, i, messages);
  }
  for (std::size_t i = 0; i < program.copies.size(); ++i) {
    take(&StepCounts::copies, i, prices.copies[i].alone() + prices.issue_copy);
  }
  for (std::size_t i = 0; i < program.host_tasks.size(); ++i) {
    take(&StepCounts::host_tasks, i, program.host_tasks[i].duration);
  }
}

// The clock counts picoseconds in 64 bits: 106 days, and all the steps that are run must fit.
bool OutlastsTheClock(const Program& program, const cost::Prices& prices) {
  const auto most = static_cast<double>(Seconds(86'400).picoseconds());
  // Few steps come near it: at first, as if each instruction were the longest.
  Time longest;
  ForEachTime(program, prices,
              [&](auto, std::size_t, Time time) { longest = std::max(longest, time); });
  const auto instructions = static_cast<double>(program.step.size());
  if (instructions * static_cast<double>(longest.picoseconds()) <= most) return false;
  const StepCounts counts(program);
  double picoseconds = 0;
  ForEachTime(program, prices, [&](auto table, std::size_t operand, Time time) {
    picoseconds += (counts.*table)[operand] * static_cast<double>(time.picoseconds());
  });
  return picoseconds > most;
}

// When the host had issued all of a step: at a barrier it waits from then on.
Time LastIssue(const Timeline& timeline, std::uint32_t step) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return last;
}

std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices) {
  const double slowest =
      profile.kernels ? cost::SlowestDevice(profile.kernels->variation, devices) - 1 : 0;
  return StepTimeRange(exposed, step_time, profile.residuals, slowest);
}

void SummariseTime(const ClassRun& run, const SteadyState& steady,
                   const calibration::Calibration& profile, int devices, Forecast& forecast) {
  const Time start = StartOf(run.timeline.step_ends, steady);
  const Time end = run.timeline.step_ends[steady.last];
  const KernelSpans kernels = KernelSpansOf(run.program, run.timeline, start, end);
  const std::vector<bool> host = HostStreams(run.program);
  std::optional<KernelSpans> on_device;
  if (!host.empty()) on_device = KernelSpansOf(run.program, run.timeline, start, end, host);
  const Breakdown sum = BreakDown(run.program, run.timeline, start, end, run.host_waits,
                                  on_device ? *on_device : kernels);
  forecast.step_time = StepTimeOf(run.timeline.step_ends, steady);
  forecast.communication_total = Mean(sum.communication_total, steady.count);
  Time attributed;
  for (int phase = 0; phase < program::kPhases; ++phase) {
    forecast.time.phase[phase] = Mean(sum.time.phase[phase], steady.count);
    attributed += forecast.time.phase[phase];
  }
  forecast.time.exposed_communication = Mean(sum.time.exposed_communication, steady.count);
  forecast.time.imbalance = Mean(sum.time.imbalance, steady.count);
  forecast.time.pipeline_bubble = Mean(sum.time.pipeline_bubble, steady.count);
  attributed +=
      forecast.time.exposed_communication + forecast.time.imbalance + forecast.time.pipeline_bubble;
  PartTimes exposed = ExposedTimes(run.program, run.timeline, run.prices, start, end, kernels);
  for (Time& part : exposed) part = Mean(part, steady.count);
  forecast.step_time_range = RangeOf(exposed, forecast.step_time, profile, devices);
  // What a mean over several steps rounds off is idle.
  forecast.time.idle = forecast.step_time - attributed;
}

// Whether a device with that little left flushes as often is not known: it may take no time, or
// twice as much.
void AddAllocatorStops(Time time, Forecast& forecast) {
  const Time without = forecast.step_time;
  forecast.step_time += time;
  forecast.time.allocator_flushes = time;
  if (!forecast.step_time_range || without <= Time()) return;
  const double longer = forecast.step_time / without;
  const double width =
      longer * static_cast<double>((forecast.step_time_range->high - without).picoseconds());
  const Time half =
      Picoseconds(std::llround(std::hypot(width, static_cast<double>(time.picoseconds()))));
  forecast.step_time_range =
      TimeRange{std::max(Time(), forecast.step_time - half), forecast.step_time + half};
}

// The scenario of each kind of node, by kind.
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

// A class that does not fit says more than one that does, and then the one with the higher peak.
bool Fuller(const MemoryForecast& a, const MemoryForecast& b) {
  return a.fits != b.fits ? !a.fits : a.peak > b.peak;
}

tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const PricedClass& own) {
  if (!OutlastsTheClock(own.lowered.program, own.prices)) return {};
  return tl::unexpected(Diagnostics{
      {.code = "cost.step-too-long",
       .location = scenario.cluster_location,
       .message = "the operations of a step add up to more than a day",
       .hint = "check the units of bandwidths, latencies and layer times, or take fewer "
               "micro-batches"}});
}

}  // namespace

const ClassRun& Run::class_of(int rank) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassRun& own) {
    return own.members.empty() || std::binary_search(own.members.begin(), own.members.end(), rank);
  });
  STEPCAST_CHECK(found != classes.end(), "every rank is of a class");
  return *found;
}

Result<Run> Simulate(const scenario::Scenario& scenario, Detail detail) {
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  return SimulateAt(scenario, *std::move(classes), detail);
}

// Beside the prices, so that bounds of steps, which hold without it, hold with it.
void AddJitter(const scenario::Scenario& scenario, const Program& program, cost::Prices& prices) {
  const calibration::Calibration* profile = scenario.calibration.get();
  if (profile == nullptr) return;
  const plan::Parallelism& axes = scenario.plan.parallelism;
  const bool kernels = profile->kernels && scenario.gpu &&
                       !plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  cost::AddJitter(program,
                  {.kernels = kernels ? profile->kernels->jitter : 0,
                   .collectives = profile->links ? profile->links->jitter : 0,
                   .devices = axes.data * axes.tensor * axes.pipeline * axes.context},
                  prices);
}

Result<std::vector<PricedClass>> PricedClassesOf(const scenario::Scenario& scenario) {
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

// Whose range the step's is. Classes on like devices have nearly the same one, so it is that of the
// first, whose operations can be recorded before it is known which of them ends the step.
std::size_t RangedClass(const SimulatedRanks& ranks, const std::vector<PricedClass>& lowered,
                        std::size_t critical) {
  const SimulatedRanks::Shown& first = ranks.shown.front();
  const SimulatedRanks::Shown& last = ranks.shown[critical];
  const bool alike =
      lowered[first.lowered].kind == lowered[last.lowered].kind && first.speed == last.speed;
  return alike ? 0 : critical;
}

// Memory is that of a job whose steps are all alike, the first one too.
memory::Steps StepsOfMemory(const SteadyRun& run) {
  memory::Steps steps{.described = run.steady.last};
  if (run.steady.count == 1) steps.repeated = run.steady.last;
  // Where the run ended with a repetition the later steps are like it.
  if (run.steady.start) steps.described = static_cast<std::uint32_t>(run.ends.size()) - 2;
  return steps;
}

// By lowered class.
std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& lowered) {
  std::vector<memory::DeferredFrees> frees;
  frees.reserve(lowered.size());
  for (const PricedClass& own : lowered) frees.emplace_back(own.lowered.program);
  return frees;
}

// The operations whose times are needed: those that deferred frees wait for, and those that say
// whether a step repeats itself.
class MarkedOperations {
 public:
  // `repeated`: null: the step is none that stands for a longer one.
  MarkedOperations(const std::vector<PricedClass>& lowered,
                   const std::vector<memory::DeferredFrees>& frees,
                   const RepeatedOperations* repeated = nullptr)
      : marked_(lowered.size()), repeated_(repeated) {
    for (std::size_t i = 0; i < lowered.size(); ++i) {
      programs_.push_back(&lowered[i].lowered.program);
      if (frees[i].any() || repeated != nullptr) marked_[i].resize(programs_[i]->step.size());
      for (const Index operation : frees[i].operations()) marked_[i][operation] = true;
      for_memory_ = for_memory_ || frees[i].any();
      if (repeated == nullptr) continue;
      for (const Index operation : repeated->Of(i)) {
        if (operation != program::kNone) marked_[i][operation] = true;
      }
    }
  }
  // Memory needs times.
  bool for_memory() const { return for_memory_; }
  // Something does.
  bool any() const { return for_memory_ || repeated_ != nullptr; }
  // The ranks refer to this. Those that are not shown matter to the period alone.
  void MarkIn(SimulatedRanks& ranks) const {
    for (const SimulatedRanks::Shown& shown : ranks.shown) {
      const std::vector<bool>& own = marked_[shown.lowered];
      if (!own.empty()) ranks.classes[shown.index].marked = &own;
    }
    if (repeated_ == nullptr) return;
    for (simulate::RankClass& own : ranks.classes) {
      const auto program = std::find(programs_.begin(), programs_.end(), own.program);
      const auto index = static_cast<std::size_t>(program - programs_.begin());
      own.marked = &marked_[index];
      const std::span<const Index> ends = repeated_->EndsOf(index);
      own.looked_at = {.begin = ends.front() + 1, .end = ends.back() + 1};
    }
  }

 private:
  std::vector<std::vector<bool>> marked_;  // by lowered class and instruction
  std::vector<const Program*> programs_;   // likewise
  const RepeatedOperations* repeated_;
  bool for_memory_ = false;
};

// As seen in a run in which steps end at other times.
void Shift(Time later, std::vector<memory::Change>& changes) {
  for (memory::Change& change : changes) {
    if (change.instruction != program::kNone) change.time += later;
  }
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, std::vector<PricedClass> lowered,
                       Detail detail) {
  const KindScenarios kinds(scenario);
  std::vector<StepCounts> counts;
  for (const PricedClass& own : lowered) {
    counts.emplace_back(own.lowered.program);
    if (auto checked = CheckClock(scenario, own); !checked) {
      return tl::unexpected(std::move(checked.error()));
    }
  }
  const bool barrier = scenario.plan.training.step_barrier;
  auto ranks = SimulatedRanksOf(scenario, lowered, FirstSteps(barrier));
  if (!ranks) return tl::unexpected(ranks.error());
  const std::vector<memory::DeferredFrees> frees = FreesOf(lowered);
  const MarkedOperations marked(lowered, frees);
  marked.MarkIn(*ranks);
  simulate::Simulator simulator;
  const SteadyRun steady_run = RunToSteadyState(
      simulator, *ranks, barrier, simulate::Recording::kAll, Extent::kWhole, false,
      detail == Detail::kFigures ? RecordedSteps::kFromDescribed : RecordedSteps::kAll);
  const SteadyState& steady = steady_run.steady;
  std::vector<Timeline> timelines = simulator.Take();
  std::optional<SteadyRun> of_memory;
  if (marked.for_memory() && MayBeShort(*ranks, barrier)) {
    of_memory =
        RunForMemory(simulator, *ranks, barrier, simulate::Recording::kMarked, /*again=*/true);
  }
  const memory::Steps steps_of_run = StepsOfMemory(steady_run);
  const memory::Steps steps_of_deferred = of_memory ? StepsOfMemory(*of_memory) : steps_of_run;
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
    const memory::Steps& steps = deferred ? steps_of_deferred : steps_of_run;
    const memory::Device device = DeviceOf(on, own.program);
    if (detail == Detail::kFigures) {
      own.memory.usage =
          replayer.Figures(own.program, timeline, frees[shown.lowered], device, steps);
    } else {
      own.memory = memory::Record(own.program, timeline, device, steps);
      if (deferred) {
        Shift(steady_run.ends[steps.described] - of_memory->ends[steps.described],
              own.memory.changes);
      }
    }
    Forecast& forecast = figures.emplace_back();
    SummariseTime(own, steady, *on.calibration, on.cluster->devices(), forecast);
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
  run.forecast.collectives = SummariseCollectives(critical.program, critical.prices,
                                                  counts[ranks->shown[run.critical].lowered],
                                                  critical.timeline, steady.last);
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
  return run;
}

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

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario, bool with_range) {
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

// How long each part of a class's described steps is exposed, on average. `shorter` and `period`:
// the step that was run in the place of a longer one; null: the longer one itself was.
PartTimes ExposedTimesOf(const Program& program, const cost::Prices& prices,
                         const Timeline& timeline, const SteadyRun& run, const ShorterStep* shorter,
                         const StepPeriod* period, std::size_t index) {
  const auto exposed = [&](Time start, Time end) {
    return ExposedTimes(program, timeline, prices, start, end,
                        KernelSpansOf(program, timeline, start, end));
  };
  PartTimes times = exposed(StartOf(run.ends, run.steady), run.ends[run.steady.last]);
  for (Time& part : times) part = Mean(part, run.steady.count);
  if (period == nullptr) return times;
  const Time begin = period->begins[index];
  const PartTimes more = exposed(begin, begin + period->length);
  for (std::size_t i = 0; i < times.size(); ++i) times[i] += shorter->left_out * more[i];
  return times;
}

// What a longer step counts of a stage's program, which is of a shorter one; null: of itself.
StepCounts CountsOf(const PricedClass& own, const ShorterStep* shorter) {
  if (shorter == nullptr) return StepCounts(own.lowered.program);
  const int first = shorter->repeated[static_cast<std::size_t>(own.lowered.stage)].first;
  return StepCounts(own.lowered.program,
                    {.first = first, .end = first + shorter->period, .times = shorter->left_out});
}

Result<std::optional<Forecast>> Forecaster::Workspace::Evaluate(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& lowered,
    const std::vector<memory::DeferredFrees>& frees, const MicroBatchFlops& flops, bool with_range,
    const ShorterStep* shorter) {
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
    if (repeated) steps.longer = repeated->LongerOf(shown.lowered, *shorter);
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
    const PartTimes exposed = ExposedTimesOf(own.lowered.program, *ranks->classes[simulated].prices,
                                             run.timelines[simulated], run, shorter,
                                             period ? &*period : nullptr, simulated);
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
    WidenByUnknownHost(scenario, own.lowered.program, CountsOf(own, shorter),
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
