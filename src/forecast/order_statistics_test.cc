#include <vector>

#include "gtest/gtest.h"
#include "src/forecast/padded_lengths.h"

namespace stepcast::forecast {
namespace {

TEST(OrderStatisticsTest, TheLargestOfSeveralDraws) {
  // F = 0.5, 0.8, 1; squares 0.25, 0.64, 1.
  const std::vector<double> largest = OfLargest(std::vector{0.5, 0.3, 0.2}, 2);
  ASSERT_EQ(largest.size(), 3U);
  EXPECT_NEAR(largest[0], 0.25, 1e-12);
  EXPECT_NEAR(largest[1], 0.39, 1e-12);
  EXPECT_NEAR(largest[2], 0.36, 1e-12);
}

TEST(OrderStatisticsTest, OfOneDrawEachIsAsProbableAsItIs) {
  const std::vector<double> largest = OfLargest(std::vector{0.75, 0.25}, 1);
  EXPECT_DOUBLE_EQ(largest[0], 0.75);
  EXPECT_DOUBLE_EQ(largest[1], 0.25);
}

// Two draws of 10 or 30 have the means 10, 20 and 30 with probabilities 1/4, 1/2, 1/4. The larger
// of two ranks' means is 10 with 1/16 and at most 20 with 9/16: 10/16 + 20 x 8/16 + 30 x 7/16 =
// 23.75.
TEST(OrderStatisticsTest, TheLargestMeanOfSeveralRanks) {
  EXPECT_NEAR(MeanOfLargest(std::vector{10.0, 30.0}, std::vector{0.5, 0.5}, 2, 2), 23.75, 1e-9);
}

TEST(OrderStatisticsTest, OfOneRankItIsTheMean) {
  EXPECT_NEAR(MeanOfLargest(std::vector{1.0, 2.0, 7.0}, std::vector{0.5, 0.25, 0.25}, 13, 1), 2.75,
              1e-9);
}

TEST(OrderStatisticsTest, EqualValuesHaveNoSpread) {
  EXPECT_EQ(MeanOfLargest(std::vector{4.5, 4.5}, std::vector{0.5, 0.5}, 64, 1024), 4.5);
}

// For one draw the grid does not matter: the smaller value has 0.5^4.
TEST(OrderStatisticsTest, OfOneDrawItIsTheLargestOfAllRanks) {
  EXPECT_NEAR(MeanOfLargest(std::vector{0.0, 16.0}, std::vector{0.5, 0.5}, 1, 4), 15, 1e-9);
}

// The mean of n draws has a standard deviation of s / sqrt(n). The largest of several ranks lies
// some of these above the mean: 0.5641 for two ranks and a normal distribution.
TEST(OrderStatisticsTest, ManyDrawsComeNearANormalDistribution) {
  constexpr double kOfTwo = 0.5641896, kSpread = 0.5 / 8;
  EXPECT_NEAR(MeanOfLargest(std::vector{0.0, 1.0}, std::vector{0.5, 0.5}, 64, 2),
              0.5 + kOfTwo * kSpread, 0.01 * kSpread);
}

}  // namespace
}  // namespace stepcast::forecast
