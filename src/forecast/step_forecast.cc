#include "src/forecast/step_forecast.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/simulated_ranks.h"
#include "src/forecast/steady_run.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/model/architecture.h"
#include "src/parallel/schedule_check.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"

namespace stepcast::forecast {

namespace {

using program::Index;
using program::Program;
using program::Timeline;

// How much longer the step takes because of allocators' driver calls. The time includes the calls,
// waits of hosts before segments are returned, and lost overlap with computation
// (memory/deferred_frees.h). The step is simulated once more. How this added time shifts the calls
// themselves is neglected.
struct AllocatorStops {
  Time time;  // at least zero
  // The step may hang: a host waits for another stage's message, and that stage waits for work that
  // this host has not issued. `time` is then only the time of the calls.
  bool may_hang = false;
};

// `calls`: the driver calls of each class of `priced`. `step_time`: without them. Errors: those of
// SimulatedRanksOf.
Result<AllocatorStops> AllocatorStopsOf(
    const scenario::Scenario& scenario, const std::vector<PricedClass>& priced,
    const std::vector<std::vector<memory::DriverCallsAt>>& calls, Time step_time,
    simulate::Simulator& simulator) {
  const bool barrier = scenario.plan.training.step_barrier;
  for (const bool waits : {true, false}) {
    std::vector<PricedClass> stopped = priced;
    for (std::size_t i = 0; i < stopped.size(); ++i) {
      if (calls[i].empty()) continue;
      stopped[i].program = memory::StoppedProgram(priced[i].program, calls[i], waits);
    }
    STEPCAST_TAKE(const auto ranks, SimulatedRanksOf(scenario, stopped, FirstSteps(barrier)));
    const auto run = TryToSteadyState(simulator, ranks, barrier, simulate::Recording::kNone,
                                      Extent::kLateStart, false);
    if (!run) continue;
    return AllocatorStops{.time = std::max(StepTimeOf(run->ends, run->steady) - step_time, Time()),
                          .may_hang = !waits};
  }
  STEPCAST_CHECK(false, "a step program without host waits must not deadlock");
  return AllocatorStops();
}

// Whether `a` is the worse case: it does not fit while `b` does, or its peak is higher.
bool Fuller(const MemoryForecast& a, const MemoryForecast& b) {
  return a.fits != b.fits ? !a.fits : a.peak > b.peak;
}

// The class whose range is the step's. Classes on equal devices have nearly the same range, so the
// first class is used: its operations can be recorded before the critical class is known.
std::size_t RangedClass(const SimulatedRanks& ranks, std::size_t critical) {
  const RankClass& first = ranks.reported.front();
  const RankClass& last = ranks.reported[critical];
  const bool alike = first.node_kind == last.node_kind && first.speed == last.speed;
  return alike ? 0 : critical;
}

// The described steps as input of the memory replay, which assumes that all steps of the job are
// alike, including the first.
memory::Steps StepsOfMemory(const SteadyRun& run) {
  memory::Steps steps{.described = run.steady.last};
  if (run.steady.count == 1) steps.repeated = run.steady.last;
  // If the run ended with a repetition, later steps are like it.
  if (run.steady.start) steps.described = static_cast<std::uint32_t>(run.ends.size()) - 2;
  return steps;
}

// Adds the time for which the device stops because of the allocator. How often an almost full
// device flushes is not known, so the range extends from none of that time to twice the time.
void AddAllocatorStops(const AllocatorStops& stops, Forecast& forecast) {
  const Time time = stops.time;
  forecast.memory.allocator_may_hang = stops.may_hang;
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

// For a scenario in which an assumed software release decides whether attention stores its scores
// in memory (Scenario::KernelDependsOnAssumedRelease). If the step does not fit with stored scores,
// limits the fit probability to one half. Takes as long as a forecast.
void DoubtAssumedKernel(const scenario::Scenario& scenario, Forecast& forecast) {
  constexpr double kEven = 0.5;
  if (!scenario.KernelDependsOnAssumedRelease() || forecast.memory.fit_probability <= kEven) return;
  scenario::Scenario older = scenario;
  older.attention_assumed = false;
  older.plan.training.attention = model::Attention::kMath;
  const auto unfused = Forecaster().Evaluate(older);
  if (unfused && !unfused->memory.fits) forecast.memory.fit_probability = kEven;
}

// Calls `take` with the table of StepCounts, the operand and the time of each entry of a program's
// tables, including the time to issue it.
template <typename Take>
void ForEachTime(const Program& program, const cost::Prices& prices, Take take) {
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    take(&StepCounts::kernels, i,
         prices.kernels[i].uncontended() + prices.IssueOf(program.kernels[i]));
  }
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    take(&StepCounts::collectives, i,
         prices.collectives[i].demand.uncontended() + prices.issue_collective);
  }
  for (std::size_t i = 0; i < program.exchanges.size(); ++i) {
    Time messages = prices.issue_collective;
    for (const cost::MessagePrice& message : prices.exchanges[i]) {
      messages += message.demand.uncontended();
    }
    take(&StepCounts::exchanges, i, messages);
  }
  for (std::size_t i = 0; i < program.copies.size(); ++i) {
    take(&StepCounts::copies, i, prices.copies[i].uncontended() + prices.issue_copy);
  }
  for (std::size_t i = 0; i < program.host_tasks.size(); ++i) {
    take(&StepCounts::host_tasks, i, program.host_tasks[i].duration);
  }
}

// Whether the operations of a class's step, repeated `times` times, take more than a day in total.
bool OutlastsTheClock(const PricedClass& own, double times = 1) {
  const Program& program = own.program;
  const cost::Prices& prices = own.prices;
  const double most = static_cast<double>(Seconds(86'400).picoseconds()) / times;
  // Few steps are near the limit, so first try a bound with the longest instruction.
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

// The same for the longer step that the shorter step represents.
bool OutlastsTheClock(const std::vector<PricedClass>& priced, const ShorterStep& shorter) {
  const auto whole = static_cast<double>(shorter.micro_batches + shorter.left_out * shorter.period);
  return std::any_of(priced.begin(), priced.end(), [&](const PricedClass& own) {
    return OutlastsTheClock(own, whole / static_cast<double>(shorter.micro_batches));
  });
}

// Errors: cost.step-too-long if the step outlasts the clock.
// The clock counts picoseconds in 64 bits, so all simulated steps together must take at most 106
// days.
tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const PricedClass& own) {
  if (!OutlastsTheClock(own)) return {};
  return tl::unexpected(
      Diagnostics{{.code = "cost.step-too-long",
                   .location = scenario.cluster_location,
                   .message = "the total time of the operations of one step is more than a day",
                   .hint = "check the units of bandwidths, latencies and layer times, or use fewer "
                           "micro-batches"}});
}

// When the host had issued the whole step. At a barrier it waits from then on.
Time LastIssue(const Timeline& timeline, std::uint32_t step) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return last;
}

// Shifts changes to a run whose steps end later.
void Shift(Time later, std::vector<memory::Change>& changes) {
  for (memory::Change& change : changes) {
    if (change.instruction != program::kNone) change.time += later;
  }
}

}  // namespace

MarkedOperations::MarkedOperations(const std::vector<PricedClass>& priced,
                                   const std::vector<memory::DeferredFrees>& frees,
                                   const RepeatedOperations* repeated)
    : marked_(priced.size()), repeated_(repeated) {
  for (std::size_t i = 0; i < priced.size(); ++i) {
    programs_.push_back(&priced[i].program);
    if (frees[i].any() || repeated != nullptr) marked_[i].resize(programs_[i]->step.size());
    for (const Index operation : frees[i].operations()) marked_[i][operation] = true;
    for_memory_ = for_memory_ || frees[i].any();
    if (repeated == nullptr) continue;
    for (const Index operation : repeated->Of(i)) {
      if (operation != program::kNone) marked_[i][operation] = true;
    }
  }
}

void MarkedOperations::MarkIn(SimulatedRanks& ranks) const {
  for (const RankClass& reported : ranks.reported) {
    const std::vector<bool>& own = marked_[reported.priced];
    if (!own.empty()) ranks.classes[reported.simulated].marked = &own;
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

Result<std::optional<Run>> StepForecast::Make(const MicroBatchFlops& flops) {
  if (shorter_ != nullptr && OutlastsTheClock(priced_, *shorter_)) return std::optional<Run>();
  for (const PricedClass& own : priced_) {
    STEPCAST_TRY(CheckClock(scenario_, own));
  }
  STEPCAST_TAKE(ranks_, SimulatedRanksOf(scenario_, priced_, FirstSteps(barrier_)));
  if (!RunSteps()) return std::optional<Run>();
  calls_.resize(priced_.size());
  for (std::size_t i = 0; i < ranks_.reported.size(); ++i) {
    AddClass(ranks_.reported[i]);
    if (!AddMemory(i)) return std::optional<Run>();
  }
  if (stops_ && shorter_ != nullptr) return std::optional<Run>();
  FindCritical();
  SummariseMemories();
  run_.forecast.wire_bytes_per_rank = WireBytes();
  if (records_times()) {
    SummariseTimes();
  } else {
    run_.forecast.step_time = StepTimeOf(of_time_.ends, of_time_.steady);
    if (period_) run_.forecast.step_time += shorter_->left_out * period_->length;
    if (detail_ == Detail::kRange) AddRange();
  }
  STEPCAST_TRY(AddStops());
  FillThroughput(scenario_, flops, run_.forecast);
  ApplyRuns(scenario_, run_.forecast);
  if (detail_ != Detail::kStep) WidenByHost();
  DoubtAssumedKernel(scenario_, run_.forecast);
  return std::optional<Run>(std::move(run_));
}

bool StepForecast::RunSteps() {
  if (shorter_ != nullptr) repeated_.emplace(priced_, *shorter_);
  marked_.emplace(priced_, frees_, repeated_ ? &*repeated_ : nullptr);
  marked_->MarkIn(ranks_);
  of_time_ = RunForTime();
  if (shorter_ != nullptr) {
    period_ = PeriodOf({.simulator = simulator_,
                        .run = of_time_,
                        .ranks = ranks_,
                        .priced = priced_,
                        .operations = *repeated_,
                        .barrier = barrier_,
                        .needs_hosts = marked_->for_memory()},
                       *shorter_);
    if (!period_) return false;
  }
  if (!records_times()) return true;
  timelines_ = simulator_.Take();
  if (marked_->for_memory() && MayBeShort(ranks_, barrier_)) {
    of_memory_ =
        RunForMemory(simulator_, ranks_, barrier_, simulate::Recording::kMarked, /*again=*/true);
    memory_timelines_ = simulator_.Take();
  }
  return true;
}

SteadyRun StepForecast::RunForTime() {
  if (records_times()) {
    // Traces and pages show all steps. Times need no step after the first that repeats, but they
    // need the whole first step: it decides the lead of hosts over their devices, and so the cause
    // of idle time.
    const bool everything = detail_ == Detail::kEverything;
    const Extent extent = shorter_ != nullptr ? Extent::kLateStart
                          : everything        ? Extent::kWhole
                                              : Extent::kUntilRepetition;
    return RunToSteadyState(simulator_, ranks_, barrier_, simulate::Recording::kAll, extent,
                            /*again=*/false,
                            everything ? RecordedSteps::kAll : RecordedSteps::kFromDescribed);
  }
  const bool range = detail_ == Detail::kRange;
  if (range) {
    const RankClass& first = ranks_.reported.front();
    all_.assign(priced_[first.priced].program.step.size(), true);
    ranks_.classes[first.simulated].marked = &all_;
  }
  const auto recording =
      marked_->any() || range ? simulate::Recording::kMarked : simulate::Recording::kNone;
  return marked_->for_memory()
             ? RunForMemory(simulator_, ranks_, barrier_, recording, /*again=*/false)
             : RunToSteadyState(simulator_, ranks_, barrier_, recording, Extent::kLateStart,
                                /*again=*/false);
}

TimedClass StepForecast::TimedClassOf(const RankClass& reported, const Timeline& timeline) const {
  TimedClass timed{priced_[reported.priced].program, *ranks_.classes[reported.simulated].prices,
                   timeline};
  if (period_) timed.more = period_->More(reported.simulated, *shorter_);
  return timed;
}

void StepForecast::AddClass(const RankClass& reported) {
  const std::uint32_t last = of_time_.steady.last;
  if (!records_times()) {
    own_ends_.push_back(of_time_.timelines[reported.simulated].step_ends[last]);
    return;
  }
  ClassRun& own = run_.classes.emplace_back(ClassRun{{reported, {}, {}}, {}, {}, {}});
  own.timeline = std::move(timelines_[reported.simulated]);
  own_ends_.push_back(own.timeline.step_ends[last]);
  own.timeline.step_ends = of_time_.ends;
  own.host_waits = barrier_ ? LastIssue(own.timeline, last) : of_time_.ends[last];
}

bool StepForecast::AddMemory(std::size_t index) {
  const RankClass& reported = ranks_.reported[index];
  const program::Program& program = priced_[reported.priced].program;
  const scenario::Scenario& on = kinds_[reported.node_kind];
  // Frees in host order need no times.
  const bool deferred = of_memory_ && frees_[reported.priced].any();
  const Timeline& timeline = deferred          ? memory_timelines_[reported.simulated]
                             : records_times() ? run_.classes[index].timeline
                                               : of_time_.timelines[reported.simulated];
  memory::Steps steps = StepsOfMemory(deferred ? *of_memory_ : of_time_);
  if (period_) {
    steps.longer = LongerOf(reported.priced);
    steps.period = period_->length;
  }
  const memory::Device device = DeviceOf(on, program);
  memory::Account account;
  if (detail_ == Detail::kEverything) {
    account = memory::Record(program, timeline, device, steps);
    if (deferred) {
      Shift(of_time_.ends[steps.described] - of_memory_->ends[steps.described], account.changes);
    }
  } else {
    account.usage = replayer_.Figures(program, timeline, frees_[reported.priced], device, steps);
    if (shorter_ != nullptr && !account.usage.of_longer) return false;
  }
  memories_.push_back(SummariseMemory(on, program, account.usage));
  memories_.back().rank = reported.first_rank;
  calls_[reported.priced] = account.usage.step_calls;
  stops_ = stops_ || !calls_[reported.priced].empty();
  if (records_times()) run_.classes[index].memory = std::move(account);
  return true;
}

void StepForecast::FindCritical() {
  for (std::size_t i = 1; i < own_ends_.size(); ++i) {
    if (own_ends_[i] > own_ends_[run_.critical]) run_.critical = i;
    if (Fuller(memories_[i], memories_[run_.fullest])) run_.fullest = i;
  }
  run_.first_step = of_time_.steady.last;
}

void StepForecast::SummariseMemories() {
  run_.forecast.memory = memories_[run_.fullest];
  if (detail_ == Detail::kStep || memories_.size() == 1) return;
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    run_.forecast.classes.push_back({ranks_.reported[i], {}, memories_[i]});
  }
}

double StepForecast::WireBytes() const {
  const RankClass& critical = ranks_.reported[run_.critical];
  const program::Program& program = priced_[critical.priced].program;
  const cost::Prices& prices = *ranks_.classes[critical.simulated].prices;
  const StepCounts counts = CountsOf(critical.priced);
  double bytes = 0;
  for (std::size_t i = 0; i < counts.collectives.size(); ++i) {
    bytes += counts.collectives[i] * prices.collectives[i].wire_bytes_per_rank;
  }
  for (std::size_t i = 0; i < counts.exchanges.size(); ++i) {
    for (const program::Message& message : program.exchanges[i].messages) {
      if (message.direction != program::MessageDirection::kSend) continue;
      bytes += counts.exchanges[i] * static_cast<double>(message.bytes.count());
    }
  }
  return bytes;
}

void StepForecast::SummariseTimes() {
  Forecast& forecast = run_.forecast;
  const std::size_t ranged = RangedClass(ranks_, run_.critical);
  std::optional<TimeRange> range;
  for (std::size_t i = 0; i < run_.classes.size(); ++i) {
    const RankClass& reported = ranks_.reported[i];
    const ClassRun& own = run_.classes[i];
    const scenario::Scenario& on = kinds_[reported.node_kind];
    Forecast of_class;
    SummariseTime(TimedClassOf(reported, own.timeline), of_time_.steady, own.host_waits,
                  *on.calibration, on.cluster->devices(), of_class);
    if (i == ranged) range = of_class.step_time_range;
    if (!forecast.classes.empty()) forecast.classes[i].time = of_class.time;
    if (i != run_.critical) continue;
    forecast.step_time = of_class.step_time;
    forecast.time = of_class.time;
    forecast.communication_total = of_class.communication_total;
  }
  forecast.step_time_range = range;
  const RankClass& critical = ranks_.reported[run_.critical];
  forecast.collectives = SummariseCollectives(
      priced_[critical.priced].program, *ranks_.classes[critical.simulated].prices,
      CountsOf(critical.priced), run_.critical_class().timeline, run_.first_step,
      LongerOf(critical.priced));
}

void StepForecast::AddRange() {
  const std::size_t ranged = RangedClass(ranks_, run_.critical);
  const RankClass& reported = ranks_.reported[ranged];
  SteadyRun run = of_time_;
  if (ranged != 0) {
    for (std::size_t i = 0; i < ranks_.classes.size(); ++i) {
      ranks_.classes[i].records = i == reported.simulated;
    }
    run = RunAgain(simulator_, ranks_, barrier_, simulate::Recording::kAll, of_time_);
  }
  run_.forecast.step_time_range =
      RangeOf(ExposedTimesOf(TimedClassOf(reported, run.timelines[reported.simulated]), run),
              run_.forecast.step_time, *kinds_[reported.node_kind].calibration,
              scenario_.cluster->devices());
}

// An allocator that returns memory stops the device.
tl::expected<void, Diagnostics> StepForecast::AddStops() {
  if (!stops_) return {};
  STEPCAST_TAKE(const auto stops,
                AllocatorStopsOf(scenario_, priced_, calls_, run_.forecast.step_time, simulator_));
  AddAllocatorStops(stops, run_.forecast);
  return {};
}

void StepForecast::WidenByHost() {
  const RankClass& critical = ranks_.reported[run_.critical];
  WidenByUnknownHost(scenario_, priced_[critical.priced].program, CountsOf(critical.priced),
                     *ranks_.classes[critical.simulated].prices, run_.forecast);
  WidenByKnownGap(scenario_, run_.forecast);
}

void StepForecast::HandOverPrograms(std::vector<PricedClass>& priced, Run& run) const {
  std::vector<int> classes_left(priced.size(), 0);
  for (const RankClass& reported : ranks_.reported) ++classes_left[reported.priced];
  for (std::size_t i = 0; i < run.classes.size(); ++i) {
    const RankClass& reported = ranks_.reported[i];
    program::Program& program = priced[reported.priced].program;
    const bool last = --classes_left[reported.priced] == 0;
    run.classes[i].program = last ? std::move(program) : program;
    run.classes[i].prices = *ranks_.classes[reported.simulated].prices;
  }
}

}  // namespace stepcast::forecast
