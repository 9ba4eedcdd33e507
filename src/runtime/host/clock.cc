#include "src/runtime/host/clock.h"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace stepcast::runtime::host {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

std::int64_t MonotonicNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

}  // namespace

Clock::Clock() : epoch_nanoseconds_(MonotonicNanoseconds()) {}

Time Clock::Now() const { return Nanoseconds(MonotonicNanoseconds() - epoch_nanoseconds_); }

void Clock::SleepUntil(Time end) const {
  const std::int64_t at = epoch_nanoseconds_ + (end.picoseconds() + 999) / 1000;
  timespec until{};
  until.tv_sec = at / kNanosecondsPerSecond;
  until.tv_nsec = at % kNanosecondsPerSecond;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void PrepareThreadForPreciseSleep() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace stepcast::runtime::host
