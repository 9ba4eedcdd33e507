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

// Measured steps beside their simulation: what `calibrate runs` learns from.
namespace stepcast::validate {

struct SimulatedMemory {
  scenario::MemoryKind kind = scenario::MemoryKind::kAllocated;
  Bytes measured, forecast;
};

struct SimulatedRun {
  std::string name;
  Location location;
  scenario::Split split = scenario::Split::kFit;
  std::string reason;  // why it is not simulated; empty: it is
  // Of simulated runs.
  calibration::RunSettings settings;
  std::string profile;      // the file of its calibration profile; empty: it stands in the scenario
  Time measured, forecast;  // without what the profile has learned from runs before
  std::vector<SimulatedMemory> memory;
  // Its model's floating point operations at the peak of the devices, in seconds; zero: none are
  // counted. Over the time of a step: the part of the peak that it reaches.
  double peak_seconds = 0;
};

// Why a rule refuses a plan, without the values of one case, so that cases can be counted by it.
std::string ReasonOf(const Diagnostics& refusals);

// Of a table of runs (scenario/runs_file.h) or a file of published steps, by its ending (.csv,
// .yaml). `scenario` and `set` are for tables. Runs that a rule refuses or that say no time are not
// simulated; everything else that is wrong is an error. The same on any number of threads.
Result<std::vector<SimulatedRun>> SimulateRuns(const std::string& path, const std::string& scenario,
                                               const std::vector<std::string>& set);

// The rival without a simulation: the time of a step that reaches the part of the peak which the
// nearest of `known` reaches (calibration::LearnedRuns::Likeness), in seconds. None where none of
// them is on the same GPU, or no operations are counted.
std::optional<double> TimeByNearest(const SimulatedRun& run,
                                    const std::vector<const SimulatedRun*>& known);

}  // namespace stepcast::validate
