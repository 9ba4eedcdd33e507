#pragma once

#include <cstdint>

#include "src/base/time.h"

namespace stepcast::runtime::host {

// The host device's clock: CLOCK_MONOTONIC, counted from the clock's making, so that it fits into
// Time however long the machine has been up.
class Clock {
 public:
  Clock();

  Time Now() const;

  // Sleeps: takes no core, and wakes up a few tens of microseconds late at most when a core is free
  // (see PrepareThread). Returns at once when `end` has passed.
  void SleepUntil(Time end) const;

 private:
  std::int64_t epoch_nanoseconds_;
};

// To be called once by each thread that sleeps: without it the kernel may end sleeps 50 us late, to
// save power.
void PrepareThreadForPreciseSleep();

}  // namespace stepcast::runtime::host
