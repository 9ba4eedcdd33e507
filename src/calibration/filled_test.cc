#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/calibration/profiles.h"

namespace stepcast::calibration {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Calibration OfType() {
  Calibration profile;
  profile.kernels.emplace().memory_efficiency = 0.9;
  profile.kernel_releases = {{Version{2, 8}, *profile.kernels}};
  profile.kernel_releases.front().costs.memory_efficiency = 0.95;
  profile.links.emplace();
  profile.memory.emplace();
  profile.residuals = {{.of = "step", .interpolation = 0.01},
                       {.of = "source", .interpolation = 0.05}};
  return profile;
}

TEST(FillFromTest, SectionsThatAreMissingAreTakenWhole) {
  Calibration profile;
  EXPECT_THAT(MissingSections(profile), ElementsAre("kernels", "links", "memory"));
  EXPECT_THAT(FillFrom(OfType(), profile), ElementsAre("kernels", "links", "memory"));
  EXPECT_THAT(MissingSections(profile), IsEmpty());
  EXPECT_EQ(profile.kernels->memory_efficiency, 0.9);
  EXPECT_EQ(profile.kernel_releases.size(), 1U);
}

// Residuals between sources are copied unless the profile has them; residuals of fitted types are
// not.
TEST(FillFromTest, ResidualsOfSourcesGoAlong) {
  Calibration profile;
  FillFrom(OfType(), profile);
  ASSERT_EQ(profile.residuals.size(), 1U);
  EXPECT_EQ(profile.residuals.front().of, "source");
  profile.residuals.front().interpolation = 0.2;
  FillFrom(OfType(), profile);
  ASSERT_EQ(profile.residuals.size(), 1U);
  EXPECT_EQ(profile.residuals.front().interpolation, 0.2);
}

// Measured values apply to every release; missing values come from each release.
TEST(FillFromTest, MeasuredKernelsKeepWhatTheyHave) {
  Calibration profile;
  KernelCosts& kernels = profile.kernels.emplace();
  kernels.gemm_surface[static_cast<std::size_t>(DataType::kBf16)] = {
      .m = {64}, .n = {64}, .k = {64}, .times = {Microseconds(5)}};
  ASSERT_TRUE(kernels.measured());
  profile.links.emplace();
  profile.memory.emplace();
  EXPECT_THAT(FillFrom(OfType(), profile), testing::Contains("kernels.memory_efficiency"));
  EXPECT_EQ(profile.kernels->memory_efficiency, 0.9);
  ASSERT_EQ(profile.kernel_releases.size(), 1U);
  const KernelCosts& later = profile.kernel_releases.front().costs;
  EXPECT_EQ(later.memory_efficiency, 0.95);
  EXPECT_TRUE(later.measured());
}

}  // namespace
}  // namespace stepcast::calibration
