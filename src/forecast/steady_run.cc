#include "src/forecast/steady_run.h"

#include <algorithm>
#include <cstdlib>

#include "src/base/check.h"

namespace stepcast::forecast {
namespace {

// How many steps are run until the interval between their ends has settled, at first and at most. A
// host that runs ahead of its device a little further each step settles late. The last step is not
// looked at: what overlaps the end of a step is the beginning of the next.
constexpr int kFirstSteps = 4;
constexpr int kMostSteps = 64;

// Times are exact unless operations share rates; then they may differ by rounding.
constexpr std::int64_t kRounding = 10'000;  // picoseconds

bool Same(Time a, Time b) {
  const std::int64_t difference = std::abs((a - b).picoseconds());
  return difference <= kRounding && difference <= a.picoseconds() / 1'000'000;
}

bool Settled(const std::vector<Time>& ends) {
  const std::size_t n = ends.size() - 1;
  return Same(ends[n - 1] - ends[n - 2], ends[n - 2] - ends[n - 3]) ||
         ends[n - 1] - ends[n - 2] == ends[n - 2] - ends[n - 3];
}

// When memory changes in a step, as seen from its end.
std::vector<Time> MemoryChanges(const program::Timeline& timeline, std::uint32_t step) {
  std::vector<Time> changes;
  const auto is_before = [](const program::MemoryRecord& record, std::uint32_t other) {
    return record.step < other;
  };
  for (auto record =
           std::lower_bound(timeline.memory.begin(), timeline.memory.end(), step, is_before);
       record != timeline.memory.end() && record->step == step; ++record) {
    changes.push_back(record->time - timeline.step_ends[step]);
  }
  return changes;
}

// Whether hosts are as far ahead in a step as in the one before it. One whose launches take no time
// is ahead by as many steps as are run: nothing settles there.
bool HostsSettled(const SimulatedRanks& ranks, const SteadyRun& run, std::uint32_t step) {
  return std::all_of(ranks.shown.begin(), ranks.shown.end(), [&](const auto& shown) {
    if (ranks.classes[shown.index].prices->issue_kernel == Time()) return true;
    const program::Timeline& timeline = run.timelines[shown.index];
    const std::vector<Time> before = MemoryChanges(timeline, step - 1);
    const std::vector<Time> after = MemoryChanges(timeline, step);
    return std::equal(before.begin(), before.end(), after.begin(), after.end(),
                      [](Time a, Time b) { return std::abs((a - b).picoseconds()) <= kRounding; });
  });
}

// Which of the steps are described is left open. `again`: the simulator's last run was of them,
// too.
SteadyRun RunSteps(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                   simulate::Options options, bool again) {
  options.traffic = ranks.traffic ? &*ranks.traffic : nullptr;
  const auto timelines =
      again ? simulator.RunAgain(options) : simulator.Run(ranks.classes, options);
  STEPCAST_CHECK(timelines.has_value(), "a lowered program does not deadlock");
  SteadyRun run;
  run.timelines = *timelines;
  run.ends.assign(static_cast<std::size_t>(options.steps), Time());
  for (const SimulatedRanks::Shown& shown : ranks.shown) {
    const std::vector<Time>& own = run.timelines[shown.index].step_ends;
    for (std::size_t s = 0; s < own.size(); ++s) run.ends[s] = std::max(run.ends[s], own[s]);
  }
  return run;
}

}  // namespace

int FirstSteps(bool barrier) { return barrier ? 2 : kFirstSteps; }

SteadyRun RunToSteadyState(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                           const Steadiness& wanted, simulate::Recording recording, Extent extent,
                           bool again) {
  for (int steps = FirstSteps(wanted.barrier);; steps *= 2) {
    SteadyRun run = RunSteps(simulator, ranks,
                             {.steps = steps,
                              .barrier = wanted.barrier,
                              .recording = recording,
                              .until_repetition = extent != Extent::kWhole,
                              .hosts_repeat = wanted.hosts,
                              .late_start = extent == Extent::kLateStart},
                             again);
    run.extent = extent;
    run.hosts = wanted.hosts;
    again = true;
    const auto last = static_cast<std::uint32_t>(steps - 2);
    run.steady = {.last = last, .count = 1};
    // Between barriers every step after the first is alike.
    if (wanted.barrier) {
      run.steady.last = 1;
      return run;
    }
    if (const simulate::Repetition* repetition = simulator.repetition()) {
      // Of a host that runs ahead further in each step it takes all steps to see how far.
      if (wanted.hosts && !repetition->host) {
        return RunToSteadyState(simulator, ranks, wanted, recording, Extent::kWhole, again);
      }
      run.steady = {.last = static_cast<std::uint32_t>(repetition->step),
                    .count = 1,
                    .start = repetition->start};
      return run;
    }
    // Steps that never repeat differ with where the first one began.
    if (extent == Extent::kLateStart) {
      return RunToSteadyState(simulator, ranks, wanted, recording, Extent::kUntilRepetition, again);
    }
    const bool settled = Settled(run.ends);
    if (settled && (!wanted.hosts || HostsSettled(ranks, run, last))) return run;
    if (steps >= kMostSteps) {
      if (!settled) run.steady.count = last / 2;  // a cycle of several steps: its mean
      return run;
    }
  }
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
  SteadyRun run = RunSteps(simulator, ranks,
                           {.steps = steps,
                            .barrier = barrier,
                            .recording = recording,
                            .until_repetition = repeats,
                            .hosts_repeat = before.hosts,
                            .late_start = before.extent == Extent::kLateStart},
                           /*again=*/true);
  run.steady = steady;
  run.extent = before.extent;
  run.hosts = before.hosts;
  return run;
}

Time StartOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return steady.start ? *steady.start : ends[steady.last - steady.count];
}

Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return Mean(ends[steady.last] - StartOf(ends, steady), steady.count);
}

}  // namespace stepcast::forecast
