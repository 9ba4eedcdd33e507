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

// The time breakdown of a rank class over the described steps of a run, and the exposed time of
// each kind of operation.
namespace stepcast::forecast {

// A time span of the described step, in the clock of its run, that the longer step repeats `times`
// more times.
struct MoreTime {
  Time begin, length;
  std::int64_t times = 0;
};

// The run of one class.
struct TimedClass {
  const program::Program& program;
  const cost::Prices& prices;
  const program::Timeline& timeline;
  std::optional<MoreTime> more{};  // none: the run simulates the scenario's own step
};

// Mean exposed time of each kind of operation over the run's described steps. The timeline must
// contain at least the kernels, collectives and exchanges of these steps.
PartTimes ExposedTimesOf(const TimedClass& own, const SteadyRun& run);

// The range of the step time, given the exposed times.
std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices);

// Fills in the forecast's times and range. The timeline's steps must end when the last class's
// steps do. The host waits at a barrier from `host_waits` to the end of the described steps;
// without a barrier, `host_waits` is that end.
void SummariseTime(const TimedClass& own, const SteadyState& steady, Time host_waits,
                   const calibration::Calibration& profile, int devices, Forecast& forecast);

// Each collective's calls on each group in a step, by collective, then group. `counts` belong to
// `longer`, the scenario's step; `step` is a step in the timeline.
std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer = {});

}  // namespace stepcast::forecast
