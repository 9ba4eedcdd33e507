#include <vector>

#include "gtest/gtest.h"
#include "src/calibration/profiles.h"

namespace stepcast::calibration {
namespace {

constexpr FlopRate kPeak = FlopRate::TeraflopsPerSecond(300);

TEST(StandIn, IsOfTheSameArchitecture) {
  EXPECT_EQ(StandInOf("gh200", 90)->profile, "h100-sxm");
  EXPECT_EQ(StandInOf("mine", 121)->profile, StandInOf("mine", 120)->profile);
  EXPECT_EQ(StandInOf("mi325x", 0)->profile, "mi300x");
  EXPECT_FALSE(StandInOf("gtx-1080", 61).has_value());
  EXPECT_FALSE(StandInOf("mine", 0).has_value());
}

// The profile is valid for both types. Times are half as certain; memory is as certain.
TEST(StandIn, IsKnownHalfAsWell) {
  Calibration profile;
  profile.gpus = {"h100-sxm"};
  profile.residuals = {{"gemm", 0.01, 0.02}, {"source", 0, 0.05}, {"memory", 0, 0.06}};
  const Calibration of_gpu = AsStandIn(profile, {"h100-sxm", kPeak}, "gh200", kPeak);
  EXPECT_TRUE(of_gpu.MayHoldFor("gh200"));
  EXPECT_TRUE(of_gpu.MayHoldFor("h100-sxm"));
  EXPECT_FALSE(profile.MayHoldFor("gh200"));
  EXPECT_EQ(of_gpu.residuals,
            (std::vector<Residual>{{"gemm", 0.02, 0.04}, {"source", 0, 0.1}, {"memory", 0, 0.06}}));
}

// A device of half the peak draws half the power, with every release of the libraries.
TEST(StandIn, DrawsInProportionToItsPeak) {
  Calibration profile;
  profile.kernels.emplace().power = {.idle = 60, .products = 700, .memory = 400};
  profile.kernel_releases = {{Version{2, 8}, *profile.kernels}};
  const Calibration half =
      AsStandIn(profile, {"l40s", kPeak}, "l4", FlopRate::TeraflopsPerSecond(150));
  const PowerDraw expected{.idle = 30, .products = 350, .memory = 200};
  EXPECT_EQ(half.kernels->power, expected);
  EXPECT_EQ(half.kernel_releases.front().costs.power, expected);
}

}  // namespace
}  // namespace stepcast::calibration
