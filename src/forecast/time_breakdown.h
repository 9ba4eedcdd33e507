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

// A span in which a kernel runs, on any stream, within an interval of a timeline. In most cases,
// one kernel runs at a time, and the time is attributed to this kernel.

struct KernelSpan {
  Time start, end;  // both are within the interval
  std::uint16_t stream = 0;
  program::Phase phase = program::Phase::kForward;
  program::Index instruction = program::kNone;
};

// A cluster of spans [first, last) that overlap one another, or a single span that overlaps no
// other span.
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

// Returns the kernels in [start, end). `without` states for each stream whether to ignore it.
// Empty: ignore no stream.
KernelSpans KernelSpansOf(const program::Program& program, const program::Timeline& timeline,
                          Time start, Time end, const std::vector<bool>& without = {});

// Returns, for each stream, whether it runs host work concurrently with the device: data loading,
// checkpoint saving, or drives. Operations on these streams belong to no phase of the device. Empty
// if no stream runs host work.
std::vector<bool> HostStreams(const program::Program& program);

struct Breakdown {
  TimeBreakdown time;
  Time communication_total;  // time in which at least one communicator is busy
  Intervals exposed;         // exposed communication, without imbalance and bubble
};

// Attributes all time in [start, end) of one rank's timeline to the parts of a breakdown. The host
// waits for the device at a barrier from `host_waits` to `end`. Without a barrier, `host_waits`
// must be `end`.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits);

// Like the function above, with the spans of the device's kernels in [start, end). The timeline may
// lack these kernels.
Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits, const KernelSpans& kernels);

}  // namespace stepcast::forecast
