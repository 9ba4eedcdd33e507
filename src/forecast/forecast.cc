#include "src/forecast/forecast.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/kernel.h"
#include "src/cost/carry.h"
#include "src/cost/device_speed.h"
#include "src/cost/price.h"
#include "src/forecast/collective_summaries.h"
#include "src/forecast/learned.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/forecast/time_breakdown.h"
#include "src/forecast/uncertainty.h"
#include "src/forecast/work_cache.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/replay.h"
#include "src/network/carriage.h"
#include "src/parallel/rank_classes.h"
#include "src/program/validator.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::Opcode;
using program::Program;
using program::Timeline;

// How many steps are run until the interval between their ends has settled, at first and at most. A
// host that runs ahead of its device a little further each step settles late. The last step is not
// looked at: what overlaps the end of a step is the beginning of the next.
constexpr int kFirstSteps = 4;
constexpr int kMostSteps = 64;

// The steps whose mean interval is the forecast: (last - count, last].
struct SteadyState {
  std::uint32_t last = 0;
  std::uint32_t count = 1;
  std::optional<Time> start{};  // of the first of them, where no step came before
};

// Intervals are exact unless operations share rates; then they may differ by rounding.
bool Same(Time a, Time b) {
  const std::int64_t difference = std::abs((a - b).picoseconds());
  return difference <= 10'000 && difference <= a.picoseconds() / 1'000'000;
}

// The classes of ranks that are simulated, and the network that joins them.
struct Ranks {
  // A class whose records are kept: it stands for so many ranks.
  struct Shown {
    std::size_t index = 0;  // of `classes`
    int ranks = 1;
    double speed = 1;
  };

  std::deque<std::vector<program::ProcessGroup>> groups{};  // ranks with the same ones share them
  std::deque<cost::Prices> slowed{};                        // of slow devices
  std::vector<simulate::RankClass> classes{};
  std::vector<Shown> shown{};  // by lowest rank
  std::optional<network::Carriage> carriage{};
};

int FirstSteps(bool barrier) { return barrier ? 2 : kFirstSteps; }

// Prices of all ranks: those of the scenario's devices, or of slower ones.
class PricesByRank {
 public:
  PricesByRank(const scenario::Scenario& scenario, const Program& program,
               const cost::Prices& prices, std::deque<cost::Prices>& slowed)
      : labels_(static_cast<std::size_t>(scenario.plan.parallelism.data), 0) {
    entries_.push_back({1, &prices});
    for (const scenario::SlowDevice& slow : scenario.slow_devices) {
      if (static_cast<std::size_t>(slow.rank) >= labels_.size() || slow.speed == 1) continue;
      std::size_t label = 0;
      while (label < entries_.size() && entries_[label].speed != slow.speed) ++label;
      if (label == entries_.size()) {
        slowed.push_back(cost::AtSpeed(program, prices, slow.speed));
        entries_.push_back({slow.speed, &slowed.back()});
      }
      labels_[static_cast<std::size_t>(slow.rank)] = static_cast<std::int64_t>(label);
    }
  }
  const std::vector<std::int64_t>& labels() const { return labels_; }  // equal: equally fast
  double SpeedOf(int rank) const { return EntryOf(rank).speed; }
  const cost::Prices* Of(int rank) const { return EntryOf(rank).prices; }

 private:
  struct Entry {
    double speed = 1;
    const cost::Prices* prices = nullptr;
  };
  const Entry& EntryOf(int rank) const {
    return entries_[static_cast<std::size_t>(labels_[static_cast<std::size_t>(rank)])];
  }

  std::vector<std::int64_t> labels_;  // [rank]
  std::vector<Entry> entries_;        // [label]
};

// The groups of a class of ranks. All of its ranks are in groups of the same colours, and each
// colour is stood for by its first group, in which classes meet.
std::vector<program::ProcessGroup> GroupsOfClass(const Program& program,
                                                 const parallel::Classes& classes, int rank) {
  std::vector<program::ProcessGroup> own = program.groups;
  for (std::size_t g = 0; g < own.size(); ++g) {
    const std::vector<std::vector<int>> groups = own[g].layout.Groups();
    const std::vector<int>& colours = classes.group_colours[g];
    const int first = own[g].layout.First(rank);
    std::size_t at = 0;
    while (groups[at].front() != first) ++at;
    std::size_t stands = 0;
    while (colours[stands] != colours[at]) ++stands;
    own[g].ranks = groups[stands];
  }
  return own;
}

Result<Ranks> RanksOf(const scenario::Scenario& scenario, const Program& program,
                      const cost::Prices& prices) {
  Ranks ranks;
  const auto count = static_cast<int>(scenario.plan.parallelism.data);
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  if (analytic && scenario.slow_devices.empty()) {
    ranks.classes.push_back({.program = &program, .prices = &prices, .representative = 0});
    ranks.shown.push_back({.index = 0, .ranks = count});
    return ranks;
  }
  const PricesByRank by_rank(scenario, program, prices, ranks.slowed);
  std::vector<parallel::GroupLayout> layouts;
  for (const program::ProcessGroup& group : program.groups) layouts.push_back(group.layout);
  const parallel::Classes classes = parallel::ClassesOf(by_rank.labels(), layouts, {}, {});
  if (analytic) {
    for (const parallel::RankClass& own : classes.classes) {
      const int rank = own.representative;
      ranks.shown.push_back({.index = ranks.classes.size(),
                             .ranks = static_cast<int>(own.ranks.size()),
                             .speed = by_rank.SpeedOf(rank)});
      ranks.groups.push_back(GroupsOfClass(program, classes, rank));
      ranks.classes.push_back({.program = &program,
                               .prices = by_rank.Of(rank),
                               .representative = rank,
                               .groups = &ranks.groups.back()});
    }
    return ranks;
  }
  for (const parallel::RankClass& own : classes.classes) {
    ranks.shown.push_back({.index = static_cast<std::size_t>(own.representative),
                           .ranks = static_cast<int>(own.ranks.size()),
                           .speed = by_rank.SpeedOf(own.representative)});
  }
  std::vector<const std::vector<program::ProcessGroup>*> groups;  // [rank]
  for (int rank = 0; rank < count; ++rank) {
    std::vector<program::ProcessGroup> own = lowering::GroupsOf(program, rank);
    const bool as_before =
        !ranks.groups.empty() &&
        std::equal(own.begin(), own.end(), ranks.groups.back().begin(), ranks.groups.back().end(),
                   [](const program::ProcessGroup& a, const program::ProcessGroup& b) {
                     return a.ranks == b.ranks;
                   });
    if (!as_before) ranks.groups.push_back(std::move(own));
    groups.push_back(&ranks.groups.back());
    const bool records =
        classes.classes[static_cast<std::size_t>(classes.class_of[static_cast<std::size_t>(rank)])]
            .representative == rank;
    ranks.classes.push_back({.program = &program,
                             .prices = by_rank.Of(rank),
                             .representative = rank,
                             .groups = groups.back(),
                             .records = records});
  }
  auto carriage = cost::Carry(scenario, program, prices, groups,
                              FirstSteps(scenario.plan.training.step_barrier));
  if (!carriage) return tl::unexpected(std::move(carriage.error()));
  ranks.carriage.emplace(std::move(*carriage));
  return ranks;
}

// A run of the ranks until their steps repeat.
struct SteadyRun {
  SteadyState steady{};
  std::span<const Timeline> timelines{};  // by class, until the simulator's next run
  std::vector<Time> ends{};               // of the steps: when the last of the shown classes ended
};

bool Settled(const std::vector<Time>& ends) {
  const std::size_t n = ends.size() - 1;
  return Same(ends[n - 1] - ends[n - 2], ends[n - 2] - ends[n - 3]) ||
         ends[n - 1] - ends[n - 2] == ends[n - 2] - ends[n - 3];
}

// With `until_repetition`, no more is run than it takes to know what repeats.
SteadyRun RunToSteadyState(simulate::Simulator& simulator, const Ranks& ranks, bool barrier,
                           simulate::Recording recording, bool until_repetition) {
  SteadyRun run;
  for (int steps = FirstSteps(barrier);; steps *= 2) {
    const auto timelines =
        simulator.Run(ranks.classes, {.steps = steps,
                                      .barrier = barrier,
                                      .recording = recording,
                                      .until_repetition = until_repetition,
                                      .carriage = ranks.carriage ? &*ranks.carriage : nullptr});
    STEPCAST_CHECK(timelines.has_value(), "a lowered program does not deadlock");
    run.timelines = *timelines;
    run.ends.assign(static_cast<std::size_t>(steps), Time());
    for (const Ranks::Shown& shown : ranks.shown) {
      const std::vector<Time>& own = run.timelines[shown.index].step_ends;
      for (std::size_t s = 0; s < own.size(); ++s) run.ends[s] = std::max(run.ends[s], own[s]);
    }
    const auto last = static_cast<std::uint32_t>(steps - 2);
    run.steady = {.last = last, .count = 1};
    // Between barriers every step after the first is alike.
    if (barrier) {
      run.steady.last = 1;
      return run;
    }
    if (const simulate::Repetition* repetition = simulator.repetition()) {
      run.steady = {.last = static_cast<std::uint32_t>(repetition->step),
                    .count = 1,
                    .start = repetition->start};
      return run;
    }
    if (Settled(run.ends)) return run;
    // A cycle of several steps: its mean.
    if (steps >= kMostSteps) {
      run.steady.count = last / 2;
      return run;
    }
  }
}

// The clock counts picoseconds in 64 bits: 106 days, and all the steps that are run must fit.
bool OutlastsTheClock(const Program& program, const cost::Prices& prices,
                      const StepCounts& counts) {
  double picoseconds = 0;
  const auto add = [&](std::uint32_t times, Time time) {
    picoseconds += times * static_cast<double>(time.picoseconds());
  };
  for (std::size_t i = 0; i < counts.kernels.size(); ++i) {
    add(counts.kernels[i], prices.kernels[i].alone());
  }
  for (const Issuer issuer : {Issuer::kFramework, Issuer::kModule, Issuer::kAutograd}) {
    add(counts.issued[static_cast<std::size_t>(issuer)],
        prices.issue_kernel + prices.dispatch[issuer]);
  }
  for (std::size_t i = 0; i < counts.collectives.size(); ++i) {
    add(counts.collectives[i], prices.collectives[i].demand.alone() + prices.issue_collective);
  }
  for (std::size_t i = 0; i < counts.copies.size(); ++i) {
    add(counts.copies[i], prices.copies[i].alone() + prices.issue_copy);
  }
  for (std::size_t i = 0; i < counts.host_tasks.size(); ++i) {
    add(counts.host_tasks[i], program.host_tasks[i].duration);
  }
  return picoseconds > static_cast<double>(Seconds(86'400).picoseconds());
}

Time Mean(Time total, std::uint32_t count) {
  return Picoseconds(total.picoseconds() / static_cast<std::int64_t>(count));
}

// When the host had issued all of a step: at a barrier it waits from then on.
Time LastIssue(const Timeline& timeline, std::uint32_t step) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return last;
}

// What a forecast is made of.
struct Simulated {
  const Program& program;
  const cost::Prices& prices;
  const Timeline& timeline;
  SteadyState steady;
};

Time StartOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return steady.start ? *steady.start : ends[steady.last - steady.count];
}

Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return Mean(ends[steady.last] - StartOf(ends, steady), steady.count);
}

void SummariseTime(const Simulated& run, bool barrier,
                   const std::vector<calibration::Residual>& residuals, Forecast& forecast) {
  const SteadyState& steady = run.steady;
  const Time start = StartOf(run.timeline.step_ends, steady);
  const Time end = run.timeline.step_ends[steady.last];
  const KernelSpans kernels = KernelSpansOf(run.program, run.timeline, start, end);
  const std::vector<bool> host = HostStreams(run.program);
  const Breakdown sum = BreakDown(
      run.program, run.timeline, start, end, barrier ? LastIssue(run.timeline, steady.last) : end,
      host.empty() ? kernels : KernelSpansOf(run.program, run.timeline, start, end, host));
  forecast.step_time = StepTimeOf(run.timeline.step_ends, steady);
  forecast.communication_total = Mean(sum.communication_total, steady.count);
  Time attributed;
  for (int phase = 0; phase < program::kPhases; ++phase) {
    forecast.time.phase[phase] = Mean(sum.time.phase[phase], steady.count);
    attributed += forecast.time.phase[phase];
  }
  forecast.time.exposed_communication = Mean(sum.time.exposed_communication, steady.count);
  forecast.time.imbalance = Mean(sum.time.imbalance, steady.count);
  attributed += forecast.time.exposed_communication + forecast.time.imbalance;
  PartTimes exposed = ExposedTimes(run.program, run.timeline, run.prices, start, end, kernels);
  for (Time& part : exposed) part = Mean(part, steady.count);
  forecast.step_time_range = StepTimeRange(exposed, forecast.step_time, residuals);
  // What a mean over several steps rounds off is idle.
  forecast.time.idle = forecast.step_time - attributed;
}

// The step stands still at allocator flushes.
void AddFlushes(const memory::Usage& usage, Forecast& forecast) {
  const Time time = memory::LeastTimeOf(usage.step_calls);
  forecast.step_time += time;
  forecast.time.allocator_flushes = time;
  if (!forecast.step_time_range) return;
  forecast.step_time_range->low += time;
  forecast.step_time_range->high += time;
}

tl::expected<void, Diagnostics> CheckClock(const scenario::Scenario& scenario,
                                           const Program& program, const cost::Prices& prices,
                                           const StepCounts& counts) {
  if (!OutlastsTheClock(program, prices, counts)) return {};
  return tl::unexpected(Diagnostics{
      {.code = "cost.step-too-long",
       .location = scenario.cluster_location,
       .message = "the operations of a step add up to more than a day",
       .hint = "check the units of bandwidths, latencies and layer times, or take fewer "
               "micro-batches"}});
}

}  // namespace

Result<Run> Simulate(const scenario::Scenario& scenario) {
  Program program = lowering::Lower(scenario);
  const auto violations = program::Validate(program);
  for (const program::Violation& violation : violations) {
    std::fprintf(stderr, "%s\n", violation.message.c_str());
  }
  STEPCAST_CHECK(violations.empty(), "a lowered program has no race and no leak");
  auto prices = cost::Price(program, scenario);
  if (!prices) return tl::unexpected(std::move(prices.error()));
  return SimulateAt(scenario, std::move(program), std::move(*prices));
}

Result<Run> SimulateAt(const scenario::Scenario& scenario, Program program, cost::Prices prices) {
  Run run;
  run.program = std::move(program);
  run.prices = std::move(prices);
  const StepCounts counts(run.program);
  if (auto checked = CheckClock(scenario, run.program, run.prices, counts); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  const auto ranks = RanksOf(scenario, run.program, run.prices);
  if (!ranks) return tl::unexpected(ranks.error());
  const bool barrier = scenario.plan.training.step_barrier;
  simulate::Simulator simulator;
  const SteadyRun steady_run =
      RunToSteadyState(simulator, *ranks, barrier, simulate::Recording::kAll, false);
  const SteadyState& steady = steady_run.steady;
  run.first_step = steady.last;
  const memory::Device device = DeviceOf(scenario, run.program);
  std::optional<Time> critical_end;
  bool first = true;
  for (const Ranks::Shown& shown : ranks->shown) {
    const simulate::RankClass& own = ranks->classes[shown.index];
    Timeline timeline = steady_run.timelines[shown.index];
    const Time own_end = timeline.step_ends[steady.last];
    timeline.step_ends = steady_run.ends;
    Forecast forecast;
    SummariseTime({run.program, *own.prices, timeline, steady}, barrier,
                  scenario.calibration->residuals, forecast);
    memory::Account account =
        memory::Record(run.program, timeline, device, {.described = steady.last});
    MemoryForecast memory = SummariseMemory(scenario, run.program, account.usage);
    memory.rank = own.representative;
    if (ranks->shown.size() > 1) {
      run.forecast.classes.push_back({.first_rank = own.representative,
                                      .ranks = shown.ranks,
                                      .speed = shown.speed,
                                      .time = forecast.time,
                                      .memory = memory});
    }
    if (first || memory.peak > run.forecast.memory.peak) {
      run.forecast.memory = memory;
      run.memory = std::move(account);
    }
    // The critical class is the last to finish.
    if (!critical_end || own_end > *critical_end) {
      critical_end = own_end;
      run.forecast.step_time = forecast.step_time;
      run.forecast.step_time_range = forecast.step_time_range;
      run.forecast.time = forecast.time;
      run.forecast.communication_total = forecast.communication_total;
      run.prices = *own.prices;
      run.timeline = std::move(timeline);
      run.rank = own.representative;
    }
    first = false;
  }
  run.host_waits =
      barrier ? LastIssue(run.timeline, steady.last) : run.timeline.step_ends[steady.last];
  run.forecast.collectives =
      SummariseCollectives(run.program, run.prices, counts, run.timeline, steady.last);
  AddFlushes(run.memory.usage, run.forecast);
  FillThroughput(scenario, run.forecast);
  ApplyRuns(scenario, run.forecast);
  return run;
}

struct Forecaster::Workspace {
  WorkCache works;
  cost::PriceCache prices;
  simulate::Simulator simulator;
  memory::Replayer memory;
};

Forecaster::Forecaster() : workspace_(std::make_unique<Workspace>()) {}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario) {
  const auto work = workspace_->works.Of(scenario);
  const Program program = lowering::Lower(scenario, {.works = &work->layers});
  const auto prices = workspace_->prices.Price(program, scenario);
  if (!prices) return tl::unexpected(prices.error());
  if (auto checked = CheckClock(scenario, program, *prices, StepCounts(program)); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  auto ranks = RanksOf(scenario, program, *prices);
  if (!ranks) return tl::unexpected(ranks.error());

  // Memory needs times where frees are deferred; else nothing but the ends of steps is needed.
  const memory::DeferredFrees deferred(program);
  std::vector<bool> marked;
  if (deferred.any()) {
    marked.resize(program.step.size());
    for (const Index operation : deferred.operations()) marked[operation] = true;
    for (const Ranks::Shown& shown : ranks->shown) ranks->classes[shown.index].marked = &marked;
  }
  const auto recording = deferred.any() ? simulate::Recording::kMarked : simulate::Recording::kNone;
  const bool barrier = scenario.plan.training.step_barrier;
  simulate::Simulator& simulator = workspace_->simulator;
  const auto run_ranks = [&](bool until_repetition) {
    return RunToSteadyState(simulator, *ranks, barrier, recording, until_repetition);
  };
  SteadyRun run = run_ranks(true);
  // A host that runs ahead further in each step changes memory at other times in each.
  if (deferred.any() && simulator.repetition() != nullptr && !simulator.repetition()->host) {
    run = run_ranks(false);
  }
  memory::Steps steps{.described = run.steady.last};
  if (const simulate::Repetition* repetition = simulator.repetition()) {
    steps.repeated = static_cast<std::uint32_t>(repetition->step);
    steps.described = static_cast<std::uint32_t>(run.ends.size()) - 2;
  }

  Forecast forecast;
  forecast.step_time = StepTimeOf(run.ends, run.steady);
  memory::Usage usage;
  for (const Ranks::Shown& shown : ranks->shown) {
    const memory::Usage own = workspace_->memory.Figures(
        program, run.timelines[shown.index], deferred, DeviceOf(scenario, program), steps);
    if (&shown != &ranks->shown.front() && own.peak <= usage.peak) continue;
    usage = own;
    forecast.memory = SummariseMemory(scenario, program, usage);
    forecast.memory.rank = ranks->classes[shown.index].representative;
  }
  AddFlushes(usage, forecast);
  FillThroughput(scenario, work->flops, forecast);
  ApplyRuns(scenario, forecast);
  return forecast;
}

}  // namespace stepcast::forecast
