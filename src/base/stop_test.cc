#include "src/base/stop.h"

#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(Stop, OnlyTheInnermostScopeOfTheThreadCounts) {
  StopFlag outer, inner;
  outer.Request();
  StopPoint();
  const StopScope heeds_outer(outer);
  EXPECT_THROW(StopPoint(), Stopped);
  {
    const StopScope heeds_inner(inner);
    StopPoint();
  }
  EXPECT_THROW(StopPoint(), Stopped);
  std::thread([] { StopPoint(); }).join();
}

TEST(Stop, ADeadlineRequestsIt) {
  using std::chrono::steady_clock;
  StopFlag flag;
  const auto time = steady_clock::now() + std::chrono::milliseconds(20);
  flag.RequestAt(time);
  while (!flag.requested()) std::this_thread::yield();
  EXPECT_GE(steady_clock::now(), time);
}

TEST(Stop, AFlagWhoseDeadlineIsFarEndsAtOnce) {
  StopFlag flag;
  flag.RequestAt(std::chrono::steady_clock::now() + std::chrono::hours(1));
}

}  // namespace
}  // namespace stepcast
