#pragma once

#include <cstdint>

#include "src/runtime/device.h"
#include "src/runtime/job.h"

namespace stepcast::runtime {

// CLOCK_MONOTONIC, in nanoseconds since the machine started.
std::int64_t MonotonicNanoseconds();

// How far this rank's CLOCK_MONOTONIC was ahead of rank 0's, and when (by this rank's).
struct ClockOffset {
  std::int64_t ahead = 0;      // ns
  std::int64_t uncertain = 0;  // ns; the offset is at most this far off
  std::int64_t at = 0;         // ns
};

// All ranks of the job call this together. How it is measured: executor.h.
Attempt<ClockOffset> CompareClocks(Job& job);

// How fast this rank's clock gains on rank 0's, between two comparisons: seconds for each second.
double Drift(const ClockOffset& before, const ClockOffset& after);

}  // namespace stepcast::runtime
