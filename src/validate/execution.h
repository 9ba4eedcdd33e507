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

// An execution: every rank's measurement, and the same figures as a forecast.
namespace stepcast::validate {

// One rank's measurement.
struct RankRun {
  runtime::Place place;
  std::size_t program = 0;  // index in Execution::programs
  runtime::Measurement measurement;
};

// One measured step of the whole job, in the time of rank 0.
struct MeasuredStep {
  std::uint32_t step = 0;  // its number in the measurements' records
  Time start, end;
};

struct Execution {
  std::string backend;                                       // "host", "cuda"
  std::vector<std::pair<std::string, std::string>> machine;  // Backend::Describe of rank 0
  // By class of ranks, the program of its first rank. Other ranks' programs differ only in the
  // ranks of their groups.
  std::vector<program::Program> programs;
  std::vector<RankRun> ranks;
  bool barrier = false;
  std::vector<MeasuredStep> steps;
  std::size_t typical = 0;  // index in `steps`: the step with the median time
  Time shortest, longest;   // step times
  int critical_rank = 0;    // last to finish the typical step; lowest on a tie
  // Of the typical step, on the critical rank; step_time is the median. Memory is that of the rank
  // with the highest peak. at_peak is known only if the device counted memory like the program;
  // otherwise it is zero.
  forecast::Forecast figures;

  const program::Program& program_of(const RankRun& rank) const { return programs[rank.program]; }
  const RankRun& critical() const { return ranks[static_cast<std::size_t>(critical_rank)]; }
};

// The number of steps to be measured for `steps` step times. Without barriers, a step is measured
// between the ends of two steps while its successor runs, so one step more is needed before and one
// after.
int StepsToMeasure(int steps, bool barrier);

// Summarizes the measurements of all ranks, which measured StepsToMeasure steps. `barrier`: the
// executor's option.
Execution Summarise(const scenario::Scenario& scenario, std::vector<program::Program> programs,
                    std::vector<RankRun> ranks, bool barrier, std::string backend,
                    std::vector<std::pair<std::string, std::string>> machine);

}  // namespace stepcast::validate
