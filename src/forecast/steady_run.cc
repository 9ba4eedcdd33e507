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
// A queue of launches is full after fewer steps than these, unless they are very short: a host that
// is still further ahead in each of them is described as it is in the last.
constexpr int kHostSteps = 16;

// Intervals are exact unless operations share rates; then they may differ by rounding.
bool Same(Time a, Time b) {
  const std::int64_t difference = std::abs((a - b).picoseconds());
  return difference <= 10'000 && difference <= a.picoseconds() / 1'000'000;
}

bool Settled(const std::vector<Time>& ends) {
  const std::size_t n = ends.size() - 1;
  return Same(ends[n - 1] - ends[n - 2], ends[n - 2] - ends[n - 3]) ||
         ends[n - 1] - ends[n - 2] == ends[n - 2] - ends[n - 3];
}

// Whether something holds hosts back: those whose launches take no time are ahead by as many steps
// as are run.
bool HostsAreBounded(const SimulatedRanks& ranks) {
  return std::any_of(ranks.shown.begin(), ranks.shown.end(), [&](const auto& shown) {
    return ranks.classes[shown.index].prices->issue_kernel > Time();
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
  const bool whole = extent == Extent::kWhole;
  const bool bounded = wanted.hosts && HostsAreBounded(ranks);
  for (int steps = FirstSteps(wanted.barrier);; steps *= 2) {
    SteadyRun run = RunSteps(simulator, ranks,
                             {.steps = steps,
                              .barrier = wanted.barrier,
                              .recording = recording,
                              .until_repetition = !whole,
                              .note_repetition = whole && bounded,
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
    const simulate::Repetition* repetition = simulator.repetition();
    if (repetition != nullptr && whole && repetition->host) {
      run.steady.last = std::max<std::uint32_t>(kFirstSteps - 2, repetition->step);
      return run;
    }
    if (repetition != nullptr && !whole) {
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
    if (settled && (!bounded || steps >= kHostSteps)) return run;
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
