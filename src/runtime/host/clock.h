#pragma once

#include <cstdint>

#include "src/base/time.h"

namespace stepcast::runtime::host {

// The host device's clock: CLOCK_MONOTONIC, counted from the creation of the clock, so that it fits
// into Time for any uptime of the machine.
class Clock {
 public:
  Clock();

  Time Now() const;

  // Sleeps without using a core. Wakes up at most a few tens of microseconds late if a core is free
  // (see PrepareThreadForPreciseSleep). If `end` has passed, returns immediately.
  void SleepUntil(Time end) const;

 private:
  std::int64_t epoch_nanoseconds_;
};

// Each thread that sleeps calls this function once. Otherwise the kernel may end sleeps 50 us late
// to save power.
void PrepareThreadForPreciseSleep();

}  // namespace stepcast::runtime::host
