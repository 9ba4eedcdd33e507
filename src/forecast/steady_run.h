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

// The described steps, (last - count, last]. The forecast step time is the mean duration of these
// steps.
struct SteadyState {
  std::uint32_t last = 0;
  std::uint32_t count = 1;
  std::optional<Time> start{};  // start of the first described step, if it is the run's first step
};

// How much of the run is simulated.
enum class Extent : std::uint8_t {
  kWhole,            // all steps, completely
  kUntilRepetition,  // until the simulator has detected repeating steps
  kLateStart,        // kUntilRepetition with a late start (simulate::Options::late_start)
};

// A run of the ranks until their steps repeat.
struct SteadyRun {
  SteadyState steady{};
  Extent extent = Extent::kWhole;
  std::span<const program::Timeline> timelines{};  // by class; valid until the next run
  std::vector<Time> ends{};  // step ends: the time at which the last reported class ends
};

// Returns the number of steps that the first attempt simulates.
int FirstSteps(bool barrier);

// The steps whose operations a run records. kFromDescribed omits steps before the first described
// step if the extent is kWhole. With other extents, the described steps are not known in advance,
// so all steps are recorded.
enum class RecordedSteps : std::uint8_t { kAll, kFromDescribed };

// Simulates the ranks until their steps repeat. `barrier`: ranks wait for one another between
// steps. `again`: the simulator's last run was of the same ranks.
SteadyRun RunToSteadyState(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                           bool barrier, simulate::Recording recording, Extent extent, bool again,
                           RecordedSteps recorded = RecordedSteps::kAll);

// Does the same as RunToSteadyState for programs that may deadlock (lowered programs never do).
// Returns none after a deadlock.
std::optional<SteadyRun> TryToSteadyState(simulate::Simulator& simulator,
                                          const SimulatedRanks& ranks, bool barrier,
                                          simulate::Recording recording, Extent extent, bool again,
                                          RecordedSteps recorded = RecordedSteps::kAll);

// Returns whether a run may stop when it detects that steps repeat, before all steps have ended
// (simulate::Options).
bool MayBeShort(const SimulatedRanks& ranks, bool barrier);

// Performs the shortest run that determines memory with deferred frees (memory/deferred_frees.h).
// How far hosts run ahead of devices depends on the start of the first step, so all forecasts of
// memory with deferred frees must use this function.
SteadyRun RunForMemory(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                       simulate::Recording recording, bool again);

// Simulates the described steps of the simulator's last run, `before`, again, and records them. If
// `before` stopped when steps repeated, the new run stops at the same point. Otherwise, the new run
// ends with the step that overlaps the end of the described steps.
SteadyRun RunAgain(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                   simulate::Recording recording, const SteadyRun& before);

// Return the start and the mean duration of the described steps. `ends` are the step ends of a run
// or class.
Time StartOf(const std::vector<Time>& ends, const SteadyState& steady);
Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady);
// Returns total / count, the mean duration of one of `count` steps.
Time Mean(Time total, std::uint32_t count);

// How often a step executes each entry of its program's tables. Independent of sizes and prices.
struct StepCounts {
  StepCounts() = default;
  explicit StepCounts(const program::Program& program) : StepCounts(program, {}) {}
  // Counts the executions in the longer step that the program represents.
  StepCounts(const program::Program& program, const program::LongerStep& longer);

  // Indexed by operand.
  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;
};

}  // namespace stepcast::forecast
