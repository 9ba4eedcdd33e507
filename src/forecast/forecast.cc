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
#include "src/forecast/learned.h"
#include "src/forecast/memory_timeline.h"
#include "src/forecast/memory_times.h"
#include "src/forecast/pool_courses.h"
#include "src/forecast/prepared_programs.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/throughput.h"
#include "src/forecast/time_breakdown.h"
#include "src/forecast/uncertainty.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/lowering.h"
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
    std::vector<program::ProcessGroup> own = lowering::GroupsOf(scenario, program, rank);
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

// `run` gives the timeline of so many steps, which stays until its next call.
template <typename RunSteps>
std::pair<const Timeline*, SteadyState> RunToSteadyState(RunSteps run, bool barrier) {
  // Between barriers every step after the first is alike.
  if (barrier) return {run(FirstSteps(true)), {.last = 1, .count = 1}};
  for (int steps = FirstSteps(false);; steps *= 2) {
    const Timeline* timeline = run(steps);
    const auto last = static_cast<std::uint32_t>(steps - 2);
    if (Settled(*timeline)) return {timeline, {.last = last, .count = 1}};
    // A cycle of several steps: its mean.
    if (steps >= kMostSteps) return {timeline, {.last = last, .count = last / 2}};
  }
}

simulate::Options OptionsOf(const Ranks& ranks, int steps, bool barrier) {
  return {
      .steps = steps, .barrier = barrier, .carriage = ranks.carriage ? &*ranks.carriage : nullptr};
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
  KernelRows rows{};
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
  const KernelSpans kernels = KernelSpansOf(run.program, run.timeline, run.rows, start, end);
  const std::vector<bool> host = HostStreams(run.program);
  const Breakdown sum = BreakDown(
      run.program, run.timeline, start, end, barrier ? LastIssue(run.timeline, steady.last) : end,
      host.empty() ? kernels
                   : KernelSpansOf(run.program, run.timeline, run.rows, start, end, host));
  forecast.step_time = StepTimeOf(run.timeline, steady);
  forecast.communication_total = Mean(sum.communication_total, steady.count);
  Time attributed;
  for (int phase = 0; phase < program::kPhases; ++phase) {
    forecast.time.phase[phase] = Mean(sum.time.phase[phase], steady.count);
    attributed += forecast.time.phase[phase];
  }
  forecast.time.exposed_communication = Mean(sum.time.exposed_communication, steady.count);
  attributed += forecast.time.exposed_communication;
  PartTimes exposed =
      ExposedTimes(run.program, run.timeline, run.prices, start, end, kernels, run.rows);
  for (Time& part : exposed) part = Mean(part, steady.count);
  forecast.step_time_range = StepTimeRange(exposed, forecast.step_time, residuals);
  // What a mean over several steps rounds off is idle.
  forecast.time.idle = forecast.step_time - attributed;
}

// Textbook data parallelism has no allocator and no context.
bool IsTextbook(const scenario::Scenario& scenario) {
  return scenario.plan.data_parallel.framework == plan::Framework::kReference;
}

// `peak_of` gives the peak within a capacity.
template <typename PeakOfCapacity>
void SummariseMemory(const Program& program, const scenario::Scenario& scenario,
                     PeakOfCapacity peak_of, Forecast& forecast) {
  MemoryForecast& memory = forecast.memory;
  if (const auto& costs = scenario.calibration->memory; costs && !IsTextbook(scenario)) {
    memory.outside = costs->context;
    for (std::size_t i = 0; i < program.communicators.size(); ++i) {
      memory.outside += i == 0 ? costs->first_communicator : costs->next_communicator;
    }
  }
  memory.capacity = scenario.cluster->device_memory();
  const MemoryPeak peak = peak_of(std::max(Bytes(0), memory.capacity - memory.outside));
  memory.at_peak = peak.by_category;
  memory.peak = peak.total;
  memory.padding = peak.padding;
  memory.reserved = peak.reserved;
  memory.fits = peak.fits;
  memory.allocator_flushes = peak.flushes;
  memory.peak_range = MemoryRange(memory.peak, scenario.calibration->residuals);
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  memory.host = host.memory;
  memory.drives = host.drives;
  if (!memory.offloads()) return;
  const topology::Host& node = *scenario.cluster->node_type()->host;
  memory.host_capacity = node.memory;
  memory.drives_capacity = node.nvme;
  memory.fits = memory.fits && memory.fits_host();
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
  const auto run_steps = [&](int steps) {
    auto timelines = simulate::Simulate(ranks->classes, OptionsOf(*ranks, steps, barrier));
    STEPCAST_CHECK(timelines.has_value(), "a lowered program does not deadlock");
    run.timeline = std::move(timelines->front());
    return &run.timeline;
  };
  const SteadyState steady = RunToSteadyState(run_steps, barrier).second;
  run.first_step = steady.last;
  run.host_waits =
      barrier ? LastIssue(run.timeline, steady.last) : run.timeline.step_ends[steady.last];
  const Simulated simulated{run.program, run.prices, run.timeline, steady};
  SummariseTime(simulated, barrier, scenario.calibration->residuals, run.forecast);
  run.forecast.collectives =
      SummariseCollectives(run.program, run.prices, counts, run.timeline, steady.last);
  const auto peak_of = [&](Bytes capacity) {
    return IsTextbook(scenario) ? PeakHandedOut(run.program, run.timeline, capacity)
                                : PeakOf(run.program, run.timeline, capacity,
                                         scenario.plan.software.expandable_segments);
  };
  SummariseMemory(run.program, scenario, peak_of, run.forecast);
  FillThroughput(scenario, run.forecast);
  ApplyRuns(scenario, run.forecast);
  return run;
}

struct Forecaster::Workspace {
  PoolCourses courses;  // outlives the plans of `programs`
  PreparedPrograms programs;
  cost::PriceCache prices;
  simulate::Simulator simulator;
  UntimedPeaks peaks;
  MemoryTimes memory_times;
};

Forecaster::Forecaster() : workspace_(std::make_unique<Workspace>()) {}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

Result<Forecast> Forecaster::Evaluate(const scenario::Scenario& scenario, Wanted wanted) {
  PreparedProgram& prepared = workspace_->programs.Of(scenario);
  const Program& program = prepared.program;
  auto priced = workspace_->prices.Price(program, scenario, nullptr, prepared.prices);
  if (!priced) return tl::unexpected(std::move(priced.error()));
  const cost::Prices* const prices = &prepared.prices.prices;
  if (auto checked = CheckClock(scenario, program, *prices, prepared.counts); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  auto ranks = RanksOf(scenario, program, *prices);
  if (!ranks) return tl::unexpected(ranks.error());
  if (!ranks->carriage) {
    prepared.schedule.Build(program, *prices);
    ranks->classes.front().schedule = &prepared.schedule;
  }
  const bool barrier = scenario.plan.training.step_barrier;
  const bool timed = prepared.timed;
  const simulate::Simulator& simulator = workspace_->simulator;
  const bool figures = wanted == Wanted::kFigures;
  const bool rows = !figures && !barrier && !prepared.kernels_delay;
  const auto records = [&] {
    if (prepared.kernels_delay) return simulate::Records::kAll;
    if (!figures) return simulate::Records::kRowsOfKernels;
    return timed ? simulate::Records::kEnds : simulate::Records::kStepEnds;
  };
  // Where one rank runs by itself, a few times tell when memory changes.
  const bool alone = ranks->classes.size() == 1 && !ranks->carriage && !barrier;
  const auto run_once = [&](int steps, bool until_repetition) {
    simulate::Options options = OptionsOf(*ranks, steps, barrier);
    // Where it takes time to issue something, no step is like the first: no figure but memory looks
    // at that one.
    const bool first_counts = timed || prices->issue_kernel == Time();
    options.first_recorded_step = first_counts || barrier ? 0 : 1;
    options.cut_last_step = !timed && !barrier;
    options.records = records();
    options.memory = timed && !alone;
    options.until_repetition = until_repetition && !barrier;
    const auto timelines = workspace_->simulator.Run(ranks->classes, options);
    STEPCAST_CHECK(timelines.has_value(), "a lowered program does not deadlock");
    return &timelines->front();
  };
  MemoryTimes& memory_times = workspace_->memory_times;
  const auto find_memory_times = [&](const Timeline& timeline) {
    const simulate::Repetition* repetition = simulator.repetition();
    memory_times.schedule = &prepared.schedule;
    memory_times.delayed = &*prepared.delayed;
    memory_times.steps = static_cast<std::uint32_t>(
        repetition != nullptr ? static_cast<std::size_t>(repetition->step) + 1
                              : timeline.step_ends.size());
    memory_times.segments = simulator.segment_begins();
    memory_times.step_ends = timeline.step_ends;
    if (records() == simulate::Records::kEnds) {
      memory_times.SetEnds(simulator.ends());
    } else {
      memory_times.SetEnds(std::span(timeline.operations));
    }
  };
  const auto run_steps = [&](int steps) {
    const Timeline* timeline = run_once(steps, true);
    if (!timed || !alone) return timeline;
    const simulate::Repetition* repetition = simulator.repetition();
    if (repetition == nullptr || repetition->host) find_memory_times(*timeline);
    // The step that all later ones repeat must show when the last of them changes memory, though
    // nothing comes after that: nothing of the next step begins before the last change is over.
    if (repetition == nullptr ||
        (repetition->host && memory_times.OverAt(repetition->next_begins))) {
      return timeline;
    }
    timeline = run_once(steps, false);
    find_memory_times(*timeline);
    return timeline;
  };
  auto [timeline, steady] = RunToSteadyState(run_steps, barrier);
  KnownRun known{.delayed = timed ? &*prepared.delayed : nullptr};
  if (const simulate::Repetition* repetition = simulator.repetition()) {
    // The step that was run stands for the one that is described.
    known.repeated = static_cast<std::uint32_t>(repetition->step);
    steady = {.last = *known.repeated, .count = 1, .start = repetition->start};
  }
  const Simulated simulated{
      program, *prices, *timeline, steady, {.simulator = rows ? &simulator : nullptr}};
  Forecast forecast;
  if (figures) {
    forecast.step_time = StepTimeOf(*timeline, steady);
  } else {
    SummariseTime(simulated, barrier, scenario.calibration->residuals, forecast);
    forecast.collectives =
        SummariseCollectives(program, *prices, prepared.counts, *timeline, steady.last);
  }
  const int steps = static_cast<int>(timeline->step_ends.size());
  const bool expandable = scenario.plan.software.expandable_segments;
  const auto plan_of_memory = [&]() -> MemoryPlan& {
    if (!prepared.memory) {
      prepared.memory.emplace(program, workspace_->courses, std::vector<std::uint64_t>());
    }
    return *prepared.memory;
  };
  const auto untimed_peak = [&](Bytes capacity) {
    MemoryPlan& plan = plan_of_memory();
    std::optional<MemoryPeak> peak;
    if (IsTextbook(scenario)) {
      peak = plan.HandedOut(program, capacity);
      if (!peak) peak = UntimedPeaks::HandedOut(program, steps, capacity);
    } else {
      if (!expandable) peak = plan.Of(program, steps, capacity);
      if (!peak) peak = workspace_->peaks.Of(program, steps, capacity, expandable);
    }
    return *peak;
  };
  const auto peak_of = [&, run = timeline](Bytes capacity) {
    if (!timed) return untimed_peak(capacity);
    const bool textbook = IsTextbook(scenario);
    if (alone && textbook) {
      if (const auto peak = plan_of_memory().HandedOut(program, memory_times, capacity)) {
        return *peak;
      }
    }
    Timeline changes;
    if (alone) {
      changes = memory_times.Changes();
      known.ends = memory_times.ends;
    }
    const Timeline& replayed = alone ? changes : *run;
    return textbook ? PeakHandedOut(program, replayed, capacity, known)
                    : PeakOf(program, replayed, capacity, expandable, known);
  };
  SummariseMemory(program, scenario, peak_of, forecast);
  FillThroughput(scenario, FlopsOf(scenario, *prepared.works), forecast);
  ApplyRuns(scenario, forecast);
  return forecast;
}

}  // namespace stepcast::forecast
