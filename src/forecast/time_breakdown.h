#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/intervals.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::forecast {

// When kernels run, on any stream, in an interval of a timeline. Mostly one runs at a time: then an
// instant is its, and no order among them is needed.

struct KernelSpan {
  Time start, end;  // within the interval
  std::uint16_t stream = 0;
  program::Phase phase = program::Phase::kForward;
  program::Index instruction = program::kNone;
};

// Spans [first, last) that overlap each other, or one alone.
struct KernelCluster {
  std::size_t first = 0, last = 0;
  Time start, end;
  bool alone() const { return last - first == 1; }
};

struct KernelSpans {
  std::vector<KernelSpan> spans;  // by start
  std::vector<KernelCluster> clusters;
  Intervals gaps;  // in which no kernel runs
};

// In [start, end). `without`: streams that do not count; empty: all do.
KernelSpans KernelSpansOf(const program::Program& program, const program::Timeline& timeline,
                          Time start, Time end, const std::vector<bool>& without = {});

// Which streams stand for the host's own work beside the device's: loading data, writing a
// checkpoint, drives. What runs there is no phase of the device's. Empty: none.
std::vector<bool> HostStreams(const program::Program& program);

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
