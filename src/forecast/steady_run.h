#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/simulated_ranks.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {

// The described steps, (last - count, last]. The forecast step time is the mean of their intervals.
struct SteadyState {
  std::uint32_t last = 0;
  std::uint32_t count = 1;
  std::optional<Time> start{};  // start of the first described step, if it is the run's first step
};

// How much of the run is simulated.
enum class Extent : std::uint8_t {
  kWhole,            // all steps, completely
  kUntilRepetition,  // until the simulator has found the repeating part
  kLateStart,        // like kUntilRepetition, but only the end of the first step
                     // (simulate::Options::late_start)
};

// A run of the ranks until their steps repeat.
struct SteadyRun {
  SteadyState steady{};
  Extent extent = Extent::kWhole;
  std::span<const program::Timeline> timelines{};  // by class; valid until the simulator's next run
  std::vector<Time> ends{};  // step ends: the time at which the last reported class ends
};

// Returns the number of steps that the first attempt simulates.
int FirstSteps(bool barrier);

// The steps whose operations a run records. In a run of Extent::kWhole, kFromDescribed omits the
// steps before the first described step. With other extents, all steps are recorded, because the
// described step is not known in advance.
enum class RecordedSteps : std::uint8_t { kAll, kFromDescribed };

// Simulates the ranks until their steps repeat. `barrier`: ranks wait for one another between
// steps. `again`: the simulator's last run simulated the same ranks.
SteadyRun RunToSteadyState(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                           bool barrier, simulate::Recording recording, Extent extent, bool again,
                           RecordedSteps recorded = RecordedSteps::kAll);

// Like RunToSteadyState, but for programs that may deadlock (lowered programs never do). Returns
// none after a deadlock.
std::optional<SteadyRun> TryToSteadyState(simulate::Simulator& simulator,
                                          const SimulatedRanks& ranks, bool barrier,
                                          simulate::Recording recording, Extent extent, bool again,
                                          RecordedSteps recorded = RecordedSteps::kAll);

// Returns whether a run may stop before all steps have ended, when it detects their repetition
// (simulate::Options).
bool MayBeShort(const SimulatedRanks& ranks, bool barrier);

// Performs the shortest run that determines memory with deferred frees (memory/deferred_frees.h).
// The lead of hosts over devices depends on the start of the first step. All forecasts of memory
// with deferred frees use this function, so their results agree.
SteadyRun RunForMemory(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                       simulate::Recording recording, bool again);

// Repeats the described steps of the simulator's last run, `before`, and records them. If `before`
// stopped at a repetition, the new run ends at the same point. Otherwise, the new run ends with the
// step that overlaps the end of the described steps.
SteadyRun RunAgain(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                   simulate::Recording recording, const SteadyRun& before);

// Return the start and the mean duration of the described steps. `ends` are the step ends of a run
// or of a class.
Time StartOf(const std::vector<Time>& ends, const SteadyState& steady);
Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady);
// Returns total / count, the mean duration of one of `count` steps.
Time Mean(Time total, std::uint32_t count);

// The number of times that a step executes each entry of its program's tables. The numbers depend
// only on instructions, not on sizes or prices.
struct StepCounts {
  StepCounts() = default;
  explicit StepCounts(const program::Program& program) : StepCounts(program, {}) {}
  // Counts the executions in the longer step that the program represents.
  StepCounts(const program::Program& program, const program::LongerStep& longer);

  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;  // by operand
};

}  // namespace stepcast::forecast
