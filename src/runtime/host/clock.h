#pragma once

#include <cstdint>

#include "src/base/time.h"

namespace stepcast::runtime::host {

// The clock of the host device: CLOCK_MONOTONIC, relative to the creation of the clock. The clock's
// values therefore fit into Time for any uptime of the machine.
class Clock {
 public:
  Clock();

  Time Now() const;

  // Sleeps until `end` without using a core. Wakes up at most a few tens of microseconds late if a
  // core is free (see PrepareThreadForPreciseSleep). If `end` has passed, returns immediately.
  void SleepUntil(Time end) const;

 private:
  std::int64_t epoch_nanoseconds_;
};

// Reduces the delay after a sleep. Each thread that sleeps calls this function once. Otherwise, the
// operating system may end sleeps 50 us late to save power.
void PrepareThreadForPreciseSleep();

}  // namespace stepcast::runtime::host
