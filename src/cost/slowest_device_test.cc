#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/cost/device_speed.h"

namespace stepcast::cost {
namespace {

TEST(SlowestDevice, IsTheTypicalOneAlone) {
  EXPECT_EQ(SlowestDevice(0.02, 1), 1);
  EXPECT_EQ(SlowestDevice(0, 512), 1);
}

// Expected largest of n standard normal numbers: 1.4236 for 8, 2.5 for 100 by tables of order
// statistics (Harter 1961: 1.42360, 2.50759). Blom's approximation is good to 0.02.
TEST(SlowestDevice, FollowsTheOrderStatistics) {
  EXPECT_NEAR(SlowestDevice(0.01, 8), 1.014236, 2e-4);
  EXPECT_NEAR(SlowestDevice(0.01, 100), 1.0250759, 2e-4);
}

RC_GTEST_PROP(SlowestDevice, MoreDevicesAreNeverFaster, ()) {
  const auto devices = *rc::gen::inRange<std::int64_t>(1, 100'000);
  const auto more = devices + *rc::gen::inRange<std::int64_t>(1, 1000);
  RC_ASSERT(SlowestDevice(0.015, more) >= SlowestDevice(0.015, devices));
  RC_ASSERT(ScaledTime(Microseconds(7), SlowestDevice(0.015, devices)) >= Microseconds(7));
}

}  // namespace
}  // namespace stepcast::cost
