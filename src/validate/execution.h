#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/scenario/scenario.h"

// Summarizes an execution: every rank's measurement, and the values of a forecast, computed from
// the measurements.
namespace stepcast::validate {

// The measurement of one rank.
struct RankRun {
  runtime::Place place;
  std::size_t program = 0;  // index in Execution::programs
  runtime::Measurement measurement;
};

// One measured step of the job. Times are on rank 0's clock.
struct MeasuredStep {
  std::uint32_t step = 0;  // index of the step in the records
  Time start, end;
};

struct Execution {
  std::string backend;                                       // "host", "cuda"
  std::vector<std::pair<std::string, std::string>> machine;  // Backend::Describe of rank 0
  // For each class of ranks, the program of its first rank. The programs of the other ranks differ
  // only in the ranks of their groups.
  std::vector<program::Program> programs;
  std::vector<RankRun> ranks;
  bool barrier = false;
  std::vector<MeasuredStep> steps;
  std::size_t typical = 0;  // index in `steps`: the step with the median time
  Time shortest, longest;   // step times
  int critical_rank = 0;    // the last rank to finish the typical step; if several, the lowest
  // The values of the typical step on the critical rank; step_time is the median. Memory is the
  // memory of the rank with the highest peak. at_peak is zero unless device and program count
  // memory in the same way.
  forecast::Forecast figures;

  const program::Program& program_of(const RankRun& rank) const { return programs[rank.program]; }
  const RankRun& critical() const { return ranks[static_cast<std::size_t>(critical_rank)]; }
};

// Returns the number of steps to measure for `steps` step times. Without barriers, a step time is
// the time between the ends of two steps, so one more step is needed before these steps, and one
// after.
int StepsToMeasure(int steps, bool barrier);

// Summarizes the measurements of all ranks. Each rank measured StepsToMeasure steps. `barrier` is
// as in the executor's options.
Execution Summarise(const scenario::Scenario& scenario, std::vector<program::Program> programs,
                    std::vector<RankRun> ranks, bool barrier, std::string backend,
                    std::vector<std::pair<std::string, std::string>> machine);

}  // namespace stepcast::validate
