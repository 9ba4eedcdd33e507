#include "src/validate/collectives.h"

#include <cmath>

#include "gtest/gtest.h"
#include "src/cost/nccl_price.h"
#include "src/topology/routes.h"

namespace stepcast::validate {
namespace {

TEST(Summarise, TakesMedianAndNinthDecileOfSizesAndTheMeanWithItsSign) {
  const ErrorSummary summary = Summarise({-0.1, 0.2, -0.3, 0.4, 0, 0, 0, 0, 0, -1.0});
  EXPECT_EQ(summary.points, 10U);
  EXPECT_DOUBLE_EQ(summary.median, 0);  // the fifth of ten
  EXPECT_DOUBLE_EQ(summary.p90, 0.4);   // the ninth
  EXPECT_NEAR(summary.bias, -0.08, 1e-12);
  EXPECT_EQ(Summarise({}).points, 0U);
}

TEST(BandOf, CountsItsLowerEnd) {
  EXPECT_EQ(BandOf(KiB(32) - Bytes(1)), SizeBand::kTiny);
  EXPECT_EQ(BandOf(KiB(32)), SizeBand::kSmall);
  EXPECT_EQ(BandOf(MiB(1)), SizeBand::kMedium);
  EXPECT_EQ(BandOf(MiB(64)), SizeBand::kMedium);
  EXPECT_EQ(BandOf(MiB(64) + Bytes(1)), SizeBand::kLarge);
}

// The present accuracy, so that a change for the worse is noticed. It is within the targets of 5
// and 15 %: a median of 2.4 %, and 90 % of points within 11.7 %.
TEST(CompareCollectives, IsAsGoodAsItWas) {
  const auto accuracy = CompareCollectives();
  ASSERT_TRUE(accuracy) << Format(accuracy.error());
  const ErrorSummary held_back = accuracy->Total(Role::kHeldBack);
  EXPECT_GT(held_back.points, 300U);
  EXPECT_TRUE(accuracy->MeetsTargets());
  EXPECT_LE(held_back.median, 0.03);
  EXPECT_LE(held_back.p90, 0.125);
  EXPECT_GT(accuracy->documented(), 30U);
  EXPECT_EQ(accuracy->as_documented(), accuracy->documented());
  // The model only, without measurements.
  EXPECT_LE(accuracy->TotalByLaw(Role::kHeldBack).median, 0.12);
}

// A fit curve reproduces its own points; a held-back curve was not read.
TEST(CompareCollectives, ReadsFitPointsAlone) {
  const auto accuracy = CompareCollectives();
  ASSERT_TRUE(accuracy);
  for (const CollectivePoint& point : accuracy->points) {
    if (point.role == Role::kFit) {
      EXPECT_NEAR(point.error(), 0, 1e-6);
    } else if (accuracy->sources[point.source].counts() &&
               point.provenance == cost::Provenance::kMeasured) {
      // Another source measured that size, with another result.
      EXPECT_GT(std::abs(point.error()), 1e-3)
          << accuracy->sources[point.source].name << " " << point.size.count();
    }
  }
}

// Nine of ten: what was held back from curves, and every point where the law alone is asked.
TEST(CompareCollectives, LieWithinTheirSpread) {
  const auto accuracy = CompareCollectives();
  ASSERT_TRUE(accuracy);
  int read = 0, read_within = 0, by_law = 0, by_law_within = 0;
  for (const CollectivePoint& point : accuracy->points) {
    if (!accuracy->sources[point.source].counts() || point.role == Role::kUncertain) continue;
    topology::CommunicationPath path;
    path.nodes = point.nodes;
    path.intra_is_nvlink = point.nvlink;
    const auto within = [&](cost::Provenance provenance, Time forecast) {
      const auto spread = cost::SpreadOf(provenance, point.size, path);
      const double ratio = point.measured / forecast;
      return spread.low <= ratio && ratio <= spread.high;
    };
    ++by_law;
    if (within(cost::Provenance::kModelled, point.by_law)) ++by_law_within;
    if (point.role != Role::kHeldBack || point.provenance == cost::Provenance::kModelled) continue;
    ++read;
    if (within(point.provenance, point.forecast)) ++read_within;
  }
  EXPECT_GT(read_within, 0.88 * read) << read;
  EXPECT_GT(by_law_within, 0.88 * by_law) << by_law;
}

}  // namespace
}  // namespace stepcast::validate
