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
#include "src/cost/price.h"
#include "src/forecast/collective_summaries.h"
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

bool Settled(const Timeline& timeline) {
  const auto& ends = timeline.step_ends;
  const std::size_t n = ends.size() - 1;
  return Same(ends[n - 1] - ends[n - 2], ends[n - 2] - ends[n - 3]) ||
         ends[n - 1] - ends[n - 2] == ends[n - 2] - ends[n - 3];
}

// The ranks that are simulated, and the network that joins them. With analytic collectives rank 0
// stands for all; else every rank runs, and the timeline is rank 0's.
struct Ranks {
  std::deque<std::vector<program::ProcessGroup>> groups{};  // ranks with the same ones share them
  std::vector<simulate::RankClass> classes{};
  std::optional<network::Carriage> carriage{};
};

int FirstSteps(bool barrier) { return barrier ? 2 : kFirstSteps; }

Result<Ranks> RanksOf(const scenario::Scenario& scenario, const Program& program,
                      const cost::Prices& prices) {
  Ranks ranks;
  ranks.classes.push_back({.program = &program, .prices = &prices, .representative = 0});
  if (scenario.network == scenario::Fidelity::kAnalytic) return ranks;
  const auto count = static_cast<int>(scenario.plan.parallelism.data);
  ranks.classes.clear();
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
    ranks.classes.push_back({.program = &program,
                             .prices = &prices,
                             .representative = rank,
                             .groups = groups.back(),
                             .records = rank == 0});
  }
  auto carriage = cost::Carry(scenario, program, prices, groups,
                              FirstSteps(scenario.plan.training.step_barrier));
  if (!carriage) return tl::unexpected(std::move(carriage.error()));
  ranks.carriage.emplace(std::move(*carriage));
  return ranks;
}

// Runs the ranks until their steps repeat. The timelines stay as they are until the simulator's
// next run. With `until_repetition`, no more is run than it takes to know what repeats.
SteadyState RunToSteadyState(simulate::Simulator& simulator, const Ranks& ranks, bool barrier,
                             simulate::Recording recording, bool until_repetition,
                             const Timeline*& timeline) {
  for (int steps = FirstSteps(barrier);; steps *= 2) {
    const auto timelines =
        simulator.Run(ranks.classes, {.steps = steps,
                                      .barrier = barrier,
                                      .recording = recording,
                                      .until_repetition = until_repetition,
                                      .carriage = ranks.carriage ? &*ranks.carriage : nullptr});
    STEPCAST_CHECK(timelines.has_value(), "a lowered program does not deadlock");
    timeline = &timelines->front();
    // Between barriers every step after the first is alike.
    if (barrier) return {.last = 1, .count = 1};
    if (const simulate::Repetition* repetition = simulator.repetition()) {
      return {.last = static_cast<std::uint32_t>(repetition->step),
              .count = 1,
              .start = repetition->start};
    }
    const auto last = static_cast<std::uint32_t>(steps - 2);
    if (Settled(*timeline)) return {.last = last, .count = 1};
    // A cycle of several steps: its mean.
    if (steps >= kMostSteps) return {.last = last, .count = last / 2};
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

Time StartOf(const Timeline& timeline, const SteadyState& steady) {
  return steady.start ? *steady.start : timeline.step_ends[steady.last - steady.count];
}

Time StepTimeOf(const Timeline& timeline, const SteadyState& steady) {
  return Mean(timeline.step_ends[steady.last] - StartOf(timeline, steady), steady.count);
}

void SummariseTime(const Simulated& run, bool barrier,
                   const std::vector<calibration::Residual>& residuals, Forecast& forecast) {
  const SteadyState& steady = run.steady;
  const Time start = StartOf(run.timeline, steady);
  const Time end = run.timeline.step_ends[steady.last];
  const KernelSpans kernels = KernelSpansOf(run.program, run.timeline, start, end);
  const std::vector<bool> host = HostStreams(run.program);
  const Breakdown sum = BreakDown(
      run.program, run.timeline, start, end, barrier ? LastIssue(run.timeline, steady.last) : end,
      host.empty() ? kernels : KernelSpansOf(run.program, run.timeline, start, end, host));
  forecast.step_time = StepTimeOf(run.timeline, steady);
  forecast.communication_total = Mean(sum.communication_total, steady.count);
  Time attributed;
  for (int phase = 0; phase < program::kPhases; ++phase) {
    forecast.time.phase[phase] = Mean(sum.time.phase[phase], steady.count);
    attributed += forecast.time.phase[phase];
  }
  forecast.time.exposed_communication = Mean(sum.time.exposed_communication, steady.count);
  attributed += forecast.time.exposed_communication;
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
  const Timeline* timeline = nullptr;
  const SteadyState steady =
      RunToSteadyState(simulator, *ranks, barrier, simulate::Recording::kAll, false, timeline);
  run.timeline = *timeline;
  run.first_step = steady.last;
  run.host_waits =
      barrier ? LastIssue(run.timeline, steady.last) : run.timeline.step_ends[steady.last];
  const Simulated simulated{run.program, run.prices, run.timeline, steady};
  SummariseTime(simulated, barrier, scenario.calibration->residuals, run.forecast);
  run.forecast.collectives =
      SummariseCollectives(run.program, run.prices, counts, run.timeline, steady.last);
  run.memory = memory::Record(run.program, run.timeline, DeviceOf(scenario, run.program),
                              {.described = steady.last});
  run.forecast.memory = SummariseMemory(scenario, run.program, run.memory.usage);
  AddFlushes(run.memory.usage, run.forecast);
  FillThroughput(scenario, run.forecast);
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
    for (Index i = 0; i < program.step.size(); ++i) {
      marked[i] = deferred.NumberOf(i) != program::kNone;
    }
    ranks->classes.front().marked = &marked;
  }
  const auto recording = deferred.any() ? simulate::Recording::kMarked : simulate::Recording::kNone;
  const bool barrier = scenario.plan.training.step_barrier;
  simulate::Simulator& simulator = workspace_->simulator;
  const Timeline* timeline = nullptr;
  const auto run = [&](bool until_repetition) {
    return RunToSteadyState(simulator, *ranks, barrier, recording, until_repetition, timeline);
  };
  SteadyState steady = run(true);
  // A host that runs ahead further in each step changes memory at other times in each.
  if (deferred.any() && simulator.repetition() != nullptr && !simulator.repetition()->host) {
    steady = run(false);
  }
  const simulate::Repetition* const repetition = simulator.repetition();
  memory::Steps steps{.described = steady.last};
  if (repetition != nullptr) {
    steps.repeated = static_cast<std::uint32_t>(repetition->step);
    steps.described = static_cast<std::uint32_t>(timeline->step_ends.size()) - 2;
  }

  Forecast forecast;
  forecast.step_time = StepTimeOf(*timeline, steady);
  const memory::Usage usage =
      workspace_->memory.Figures(program, *timeline, DeviceOf(scenario, program), steps);
  forecast.memory = SummariseMemory(scenario, program, usage);
  AddFlushes(usage, forecast);
  FillThroughput(scenario, work->flops, forecast);
  return forecast;
}

}  // namespace stepcast::forecast
