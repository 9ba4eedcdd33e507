#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/prices.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/uncertainty.h"
#include "src/forecast/values.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// Computes the time breakdown of a rank class over a run's described steps, and the exposed time of
// each kind of operation.
namespace stepcast::forecast {

// The part of a shorter step's run that the scenario's step repeats `times` more times
// (shorter_step.h). `begin` is a simulated time.
struct MoreTime {
  Time begin, length;
  std::int64_t times = 0;
};

// The part of a run that belongs to one rank class. Does not own the referenced objects.
struct TimedClass {
  const program::Program& program;
  const cost::Prices& prices;
  const program::Timeline& timeline;
  std::optional<MoreTime> more{};  // none: the run simulates the scenario's complete step
};

// Returns the mean exposed time of each kind of operation per described step. The timeline must
// contain at least the kernels, collectives and exchanges of these steps.
PartTimes ExposedTimesOf(const TimedClass& own, const SteadyRun& run);

// Returns the range of the step time, given the exposed times. None if the profile has no
// residuals. A step waits for the slowest of `devices` devices.
std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices);

// Sets the forecast's times and range. The timeline's steps must end when the steps of the last
// class end. The host waits at a barrier from `host_waits` to the end of the described steps.
// Without a barrier, `host_waits` must be the end of the described steps.
void SummariseTime(const TimedClass& own, const SteadyState& steady, Time host_waits,
                   const calibration::Calibration& profile, int devices, Forecast& forecast);

// Summarizes the calls of each collective on each group in one step, sorted by collective, then by
// group. `counts` are the numbers of calls in the scenario's step, `longer`. Times are from step
// `step` of the timeline.
std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer = {});

}  // namespace stepcast::forecast
