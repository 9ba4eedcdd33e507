#pragma once

#include "src/forecast/intervals.h"
#include "src/forecast/kernel_spans.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::forecast {

struct Breakdown {
  TimeBreakdown time;
  Time communication_total;  // the communicators' busy time, their union
  Intervals exposed;         // when communication is exposed: without imbalance and bubble
};

// Attributes every instant of [start, end) of one rank's timeline. From `host_waits` to `end` the
// host is known to wait for the device (at a barrier); pass `end` when it is not.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits);

// The same where the spans of the device's kernels in [start, end) are known; the timeline need not
// have them.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits, const KernelSpans& kernels);

}  // namespace stepcast::forecast
