#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/intervals.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// When kernels run, on any stream, in an interval of a timeline. Mostly one runs at a time: then an
// instant is its, and no order among them is needed.
namespace stepcast::forecast {

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

}  // namespace stepcast::forecast
