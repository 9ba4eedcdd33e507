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

// An execution: every rank's measurement, and the figures that a forecast has, too.
namespace stepcast::validate {

// One rank's part.
struct RankRun {
  runtime::Place place;
  std::size_t program = 0;  // which of Execution::programs it ran
  runtime::Measurement measurement;
};

// One measured step of the whole job, in the time of rank 0.
struct MeasuredStep {
  std::uint32_t step = 0;  // as the measurements' records count
  Time start, end;
};

struct Execution {
  std::string backend;                                       // "host", "cuda"
  std::vector<std::pair<std::string, std::string>> machine;  // Backend::Describe, of rank 0
  // By class of ranks, of its first rank: those of the others differ in the ranks of their groups
  // alone.
  std::vector<program::Program> programs;
  std::vector<RankRun> ranks;
  bool barrier = false;
  std::vector<MeasuredStep> steps;
  std::size_t typical = 0;  // of `steps`: the one with the median time
  Time shortest, longest;   // step times
  int critical_rank = 0;    // the last to finish the typical step; the lowest on a tie
  // Of the typical step, on the critical rank; step_time is the median. Memory is that of the rank
  // with the highest peak; what was alive then is known (at_peak) only if the device counted what
  // the program says, else zero.
  forecast::Forecast figures;

  const program::Program& program_of(const RankRun& rank) const { return programs[rank.program]; }
  const RankRun& critical() const { return ranks[static_cast<std::size_t>(critical_rank)]; }
};

// How many steps the executor must measure for `steps` step times. Without barriers a step is
// measured between the ends of two, while its successor runs: one leads in, one leads out.
int StepsToMeasure(int steps, bool barrier);

// Sums up the measurements of all ranks, which measured StepsToMeasure steps. `barrier`: as the
// executor was told.
Execution Summarise(const scenario::Scenario& scenario, std::vector<program::Program> programs,
                    std::vector<RankRun> ranks, bool barrier, std::string backend,
                    std::vector<std::pair<std::string, std::string>> machine);

}  // namespace stepcast::validate
