#pragma once

#include <cstdint>
#include <optional>

#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/prices.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/uncertainty.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// This file says where the time of the described steps of a class of ranks goes, and how long each
// part of it is exposed.
namespace stepcast::forecast {

// A stretch of the described step, in the time of its run, that the longer step has `times` more
// of.
struct MoreTime {
  Time begin, length;
  std::int64_t times = 0;
};

// The run of a class.
struct TimedClass {
  const program::Program& program;
  const cost::Prices& prices;
  const program::Timeline& timeline;
  std::optional<MoreTime> more{};  // none: no longer step is meant
};

// How long each part is exposed, on average over the run's described steps. The timeline has at
// least the kernels, collectives and exchanges of these.
PartTimes ExposedTimesOf(const TimedClass& own, const SteadyRun& run);

// The range of the step time that these exposed parts make.
std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices);

// Fills in the forecast's times and range. The timeline's steps end when the last class's do.
// `host_waits`: from here on to the end of the described
// steps the host waits at a barrier; that end without one.
void SummariseTime(const TimedClass& own, const SteadyState& steady, Time host_waits,
                   const calibration::Calibration& profile, int devices, Forecast& forecast);

}  // namespace stepcast::forecast
