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

// The steps whose mean interval is the forecast: (last - count, last].
struct SteadyState {
  std::uint32_t last = 0;
  std::uint32_t count = 1;
  std::optional<Time> start{};  // of the first of them, where no step came before
};

// How much of the steps is run.
enum class Extent : std::uint8_t {
  kWhole,            // all of the first steps
  kUntilRepetition,  // no more than it takes to know what repeats
  kLateStart,        // nor of the first step (simulate::Options::late_start)
};

// A run of the ranks until their steps repeat.
struct SteadyRun {
  SteadyState steady{};
  Extent extent = Extent::kWhole;
  std::span<const program::Timeline> timelines{};  // by class, until the simulator's next run
  std::vector<Time> ends{};  // of the steps: when the last of the reported classes ended
};

// How often a step is run at first.
int FirstSteps(bool barrier);

// The steps whose operations a run records. kFromDescribed leaves out those before the first
// described step in a run of Extent::kWhole; in others it is not known before the run which step
// will be described, and all are recorded.
enum class RecordedSteps : std::uint8_t { kAll, kFromDescribed };

// `barrier`: ranks wait for one another between steps. `again`: the simulator's last run was of
// these ranks, too.
SteadyRun RunToSteadyState(simulate::Simulator& simulator, const SimulatedRanks& ranks,
                           bool barrier, simulate::Recording recording, Extent extent, bool again,
                           RecordedSteps recorded = RecordedSteps::kAll);

// Does the same with programs that may wait for each other in a circle, which lowered programs
// never do. Gives nothing where they do.
std::optional<SteadyRun> TryToSteadyState(simulate::Simulator& simulator,
                                          const SimulatedRanks& ranks, bool barrier,
                                          simulate::Recording recording, Extent extent, bool again,
                                          RecordedSteps recorded = RecordedSteps::kAll);

// Whether steps can be known to repeat before all of them have been run (simulate::Options).
bool MayBeShort(const SimulatedRanks& ranks, bool barrier);

// The shortest run from which memory follows that is freed when a device is done
// (memory/deferred_frees.h). All that forecast such memory make it, so that they agree: how far
// hosts are ahead after the first steps depends on where the first one began.
SteadyRun RunForMemory(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                       simulate::Recording recording, bool again);

// The described steps of such a run, the simulator's last, over again, recorded: as far as it went
// itself if it ended where its steps repeat, else no further than the step that overlaps their end.
SteadyRun RunAgain(simulate::Simulator& simulator, const SimulatedRanks& ranks, bool barrier,
                   simulate::Recording recording, const SteadyRun& before);

// Of the described steps, in a run or in the ends of a class's own steps.
Time StartOf(const std::vector<Time>& ends, const SteadyState& steady);
Time StepTimeOf(const std::vector<Time>& ends, const SteadyState& steady);
// Of one of them.
Time Mean(Time total, std::uint32_t count);

// How often a step runs each entry of its program's tables: what follows from instructions alone,
// whatever sizes and prices the entries have.
struct StepCounts {
  StepCounts() = default;
  explicit StepCounts(const program::Program& program) : StepCounts(program, {}) {}
  // These counts are those of the longer step that the program stands for.
  StepCounts(const program::Program& program, const program::LongerStep& longer);

  std::vector<std::uint32_t> kernels, collectives, exchanges, copies, host_tasks;  // by operand
};

}  // namespace stepcast::forecast
