#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/calibration/run_settings.h"
#include "src/scenario/published_file.h"

// Simulates measured steps. The results are the input of `calibrate runs`.
namespace stepcast::validate {

struct SimulatedMemory {
  scenario::MemoryKind kind = scenario::MemoryKind::kAllocated;
  Bytes measured, forecast;
};

struct SimulatedRun {
  std::string name;
  Location location;
  scenario::Split split = scenario::Split::kFit;
  std::string reason;  // why the run was not simulated; empty: it was simulated
  // The members below are set only for simulated runs.
  calibration::RunSettings settings;
  std::string profile;      // file of the run's calibration profile; empty: the scenario contains
                            // the profile
  Time measured, forecast;  // forecast without corrections by learned runs
  std::vector<SimulatedMemory> memory;
  // The time in seconds that the model's floating-point operations take at the devices' peak rate.
  // Zero if the FLOPs of the step are unknown. peak_seconds divided by the step time is the
  // achieved fraction of the peak rate.
  double peak_seconds = 0;
};

// Returns the rule that rejects a plan, as text without values of the plan, so that plans with
// equal texts can be counted.
std::string ReasonOf(const Diagnostics& refusals);

// Simulates the runs of a table (scenario/runs_file.h) or of a file of published steps; the
// extension (.csv, .yaml) decides. `scenario` and `set` apply to tables. Runs that a rule rejects,
// and runs without a time, are not simulated. All other mistakes are errors. The result does not
// depend on the number of threads.
Result<std::vector<SimulatedRun>> SimulateRuns(const std::string& path, const std::string& scenario,
                                               const std::vector<std::string>& set);

// Returns the step time, in seconds, of a baseline without simulation: the time at the fraction of
// the peak rate that the most similar run in `known` achieved (calibration::LearnedRuns::Likeness).
// No value if no known run uses the same GPU, or if the FLOPs of the step are unknown.
std::optional<double> TimeByNearest(const SimulatedRun& run,
                                    const std::vector<const SimulatedRun*>& known);

}  // namespace stepcast::validate
