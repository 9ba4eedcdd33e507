#include "src/runtime/host/clock.h"

#include <gtest/gtest.h>

namespace stepcast::runtime::host {
namespace {

TEST(Clock, NeverWakesUpEarly) {
  PrepareThreadForPreciseSleep();
  const Clock clock;
  for (const Time length : {Nanoseconds(1), Microseconds(50), Milliseconds(2)}) {
    const Time end = clock.Now() + length;
    clock.SleepUntil(end);
    EXPECT_GE(clock.Now(), end);
  }
}

TEST(Clock, CountsFromItsMaking) {
  const Clock clock;
  EXPECT_GE(clock.Now(), Time());
  // A time in the past returns at once. The machine may have been up for longer than Time can hold.
  clock.SleepUntil(Time());
  EXPECT_LT(clock.Now(), Seconds(3600));
}

}  // namespace
}  // namespace stepcast::runtime::host
