#include "src/forecast/steady_run.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"

namespace stepcast::forecast {
using program::Opcode;

StepCounts::StepCounts(const program::Program& program, const program::LongerStep& longer) {
  kernels.resize(program.kernels.size());
  collectives.resize(program.collectives.size());
  exchanges.resize(program.exchanges.size());
  copies.resize(program.copies.size());
  host_tasks.resize(program.host_tasks.size());
  for (program::Index i = 0; i < program.step.size(); ++i) {
    const program::Instruction& instruction = program.step[i];
    const auto times = static_cast<std::uint32_t>(longer.Times(i));
    switch (instruction.opcode) {
      case Opcode::kKernel:
        kernels[instruction.operand] += times;
        break;
      case Opcode::kCollective:
        collectives[instruction.operand] += times;
        break;
      case Opcode::kExchange:
        exchanges[instruction.operand] += times;
        break;
      case Opcode::kCopy:
        copies[instruction.operand] += times;
        break;
      case Opcode::kHostTask:
        host_tasks[instruction.operand] += times;
        break;
      default:
        break;
    }
  }
}

namespace {

// How many steps are run until the interval between their ends has settled: first and at most. A
// host whose lead grows a little in each step settles late. The last step is not examined, since
// the next step's beginning overlaps its end.
constexpr int kFirstSteps = 4;
constexpr int kMostSteps = 64;

// Intervals are exact unless operations share rates; then rounding may differ.
bool Same(Time a, Time b) {
  const std::int64_t difference = std::abs((a - b).picoseconds());
  return difference <= 10'000 && difference <= a.picoseconds() / 1'000'000;
}

bool Settled(const std::vector<Time>& ends) {
  const std::size_t n = ends.size() - 1;
  return Same(ends[n - 1] - ends[n - 2], ends[n - 2] - ends[n - 3]) ||
         ends[n - 1] - ends[n - 2] == ends[n - 2] - ends[n - 3];
}

// Runs steps without choosing the described ones. `again`: the simulator's last run had these ranks
// too. None on a deadlock.
std::optional<SteadyRun> RunSteps(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                                  simulate::Options options, bool again) {
  options.traffic = ranks.traffic ? &*ranks.traffic : nullptr;
  const auto timelines =
      again ? simulator.RunAgain(options) : simulator.Run(ranks.classes, options);
  if (!timelines) return std::nullopt;
  SteadyRun run;
  run.timelines = *timelines;
  run.ends.assign(static_cast<std::size_t>(options.steps), Time());
  for (const RankClass& reported : ranks.reported) {
    const std::vector<Time>& own = run.timelines[reported.simulated].step_ends;
    for (std::size_t s = 0; s < own.size(); ++s) run.ends[s] = std::max(run.ends[s], own[s]);
  }
  return run;
}

}  // namespace

int FirstSteps(bool barrier) { return barrier ? 2 : kFirstSteps; }

bool MayBeShort(const SimulatedRanks& ranks, bool barrier) {
  return !barrier && (!ranks.traffic || !ranks.traffic->messages);
}

SteadyRun RunToSteadyState(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                           bool barrier, simulate::Recording recording, Extent extent, bool again,
                           RecordedSteps recorded) {
  auto run = TryToSteadyState(simulator, ranks, barrier, recording, extent, again, recorded);
  STEPCAST_CHECK(run.has_value(), "a step program must not deadlock");
  return *std::move(run);
}

std::optional<SteadyRun> TryToSteadyState(simulate::Simulator& simulator,
                                          const SimulatedRanks& ranks, bool barrier,
                                          simulate::Recording recording, Extent extent, bool again,
                                          RecordedSteps recorded) {
  if (!MayBeShort(ranks, barrier)) extent = Extent::kWhole;
  for (int steps = FirstSteps(barrier);; steps *= 2) {
    // A mean needs several steps.
    const int described = barrier ? 1 : steps - 2;
    // The repeating step is not known in advance.
    const bool later =
        recorded == RecordedSteps::kFromDescribed && extent == Extent::kWhole && steps < kMostSteps;
    auto steps_run = RunSteps(simulator, ranks,
                              {.steps = steps,
                               .barrier = barrier,
                               .recording = recording,
                               .first_recorded = later ? described : 0,
                               .until_repetition = extent != Extent::kWhole,
                               .late_start = extent == Extent::kLateStart},
                              again);
    if (!steps_run) return std::nullopt;
    SteadyRun& run = *steps_run;
    run.extent = extent;
    again = true;
    // With barriers all steps after the first are alike.
    run.steady = {.last = static_cast<std::uint32_t>(described), .count = 1};
    if (barrier) return steps_run;
    if (const simulate::Repetition* repetition = simulator.repetition()) {
      run.steady = {.last = static_cast<std::uint32_t>(repetition->step),
                    .count = 1,
                    .start = repetition->start};
      return steps_run;
    }
    // Steps that never repeat depend on where the first one began.
    if (extent == Extent::kLateStart) {
      return TryToSteadyState(simulator, ranks, barrier, recording, Extent::kUntilRepetition, again,
                              recorded);
    }
    if (Settled(run.ends)) return steps_run;
    // A cycle of several steps: use its mean.
    if (steps >= kMostSteps) {
      run.steady.count = run.steady.last / 2;
      return steps_run;
    }
  }
}

SteadyRun RunForMemory(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                       simulate::Recording recording, bool again) {
  SteadyRun run = RunToSteadyState(simulator, ranks, barrier, recording, Extent::kLateStart, again);
  // If the host's lead grows in each step, the times of memory changes differ by step.
  if (simulator.repetition() != nullptr && !simulator.repetition()->host) {
    run = RunToSteadyState(simulator, ranks, barrier, recording, Extent::kWhole, /*again=*/true);
  }
  return run;
}

Time Mean(Time total, std::uint32_t count) {
  return Picoseconds(total.picoseconds() / static_cast<std::int64_t>(count));
}

SteadyRun RunAgain(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                   simulate::Recording recording, const SteadyRun& before) {
  const bool repeats = before.steady.start.has_value();
  const int steps = repeats ? static_cast<int>(before.ends.size())
                            : static_cast<int>(before.steady.last) + (barrier ? 1 : 2);
  const SteadyState steady = before.steady;
  auto run = RunSteps(simulator, ranks,
                      {.steps = steps,
                       .barrier = barrier,
                       .recording = recording,
                       .until_repetition = repeats,
                       .late_start = before.extent == Extent::kLateStart},
                      /*again=*/true);
  STEPCAST_CHECK(run.has_value(), "a step program must be able to run several times");
  run->steady = steady;
  run->extent = before.extent;
  return *std::move(run);
}

Time StartOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return steady.start ? *steady.start : ends[steady.last - steady.count];
}

Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return Mean(ends[steady.last] - StartOf(ends, steady), steady.count);
}

}  // namespace stepcast::forecast
