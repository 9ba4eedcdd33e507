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

// A time span in which a kernel runs on any stream, cut at the ends of an interval of a timeline.
// Usually, one kernel runs at a time.

struct KernelSpan {
  Time start, end;  // start and end are within the interval
  std::uint16_t stream = 0;
  program::Phase phase = program::Phase::kForward;
  program::Index instruction = program::kNone;
};

// A cluster: spans [first, last) that overlap one another, or one span without overlap.
struct KernelCluster {
  std::size_t first = 0, last = 0;
  Time start, end;
  bool single() const { return last - first == 1; }
};

struct KernelSpans {
  std::vector<KernelSpan> spans;  // sorted by start
  std::vector<KernelCluster> clusters;
  Intervals gaps;  // times at which no kernel runs
};

// Returns the kernels in [start, end). `without` states which streams to ignore (indexed by
// stream). Empty: no stream is ignored.
KernelSpans KernelSpansOf(const program::Program& program, const program::Timeline& timeline,
                          Time start, Time end, const std::vector<bool>& without = {});

// Returns, for each stream, whether it runs host work concurrently with the device: data loading,
// checkpoint saving, or drives. Operations on these streams belong to no phase. Empty if no stream
// runs host work.
std::vector<bool> HostStreams(const program::Program& program);

struct Breakdown {
  TimeBreakdown time;
  Time communication_total;  // at least one communicator is busy
  Intervals exposed;         // exposed communication, without imbalance and bubble
};

// Divides the time in [start, end) of one rank's timeline into the parts of a breakdown. The host
// waits for the device at a barrier from `host_waits` to `end`. Without a barrier, `host_waits`
// must be `end`.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits);

// Divides the time in [start, end) of a timeline that may omit kernels. `kernels` are the device's
// kernels in this interval.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits, const KernelSpans& kernels);

}  // namespace stepcast::forecast
