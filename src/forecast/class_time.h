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

// Computes the time breakdown of a rank class over the described steps of a run, and the exposed
// time of each kind of operation.
namespace stepcast::forecast {

// The part of a shorter step's run that the scenario's step repeats `times` more times
// (shorter_step.h). `begin` is a time on the run's clock.
struct MoreTime {
  Time begin, length;
  std::int64_t times = 0;
};

// The part of a run that belongs to one rank class. The referenced objects must outlive this
// object.
struct TimedClass {
  const program::Program& program;
  const cost::Prices& prices;
  const program::Timeline& timeline;
  std::optional<MoreTime> more{};  // none: the run simulates the scenario's complete step
};

// Returns the mean exposed time of each kind of operation per described step of the run. The
// timeline must contain at least the kernels, collectives and exchanges of these steps.
PartTimes ExposedTimesOf(const TimedClass& own, const SteadyRun& run);

// Returns the range of the step time, given the exposed times. None if the profile has no
// residuals. A step waits for the slowest of `devices` devices.
std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices);

// Sets the forecast's times and range. The timeline's steps must end when the last class's steps
// end. The host waits at a barrier from `host_waits` to the end of the described steps. Without a
// barrier, set `host_waits` to the end of the described steps.
void SummariseTime(const TimedClass& own, const SteadyState& steady, Time host_waits,
                   const calibration::Calibration& profile, int devices, Forecast& forecast);

// Summarizes the calls of each collective on each group in one step, sorted by collective, then by
// group. `counts` are the calls in the scenario's step `longer`. Times are from step `step` of the
// timeline.
std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer = {});

}  // namespace stepcast::forecast
