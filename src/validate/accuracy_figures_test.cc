#include "src/validate/accuracy_figures.h"

#include "gtest/gtest.h"

namespace stepcast::validate {
namespace {

TEST(AccuracyFigures, OfNothingAreZero) {
  const AccuracyFigures figures = FiguresOf({});
  EXPECT_EQ(figures.cases, 0u);
  EXPECT_EQ(figures.mean, 0);
  EXPECT_FALSE(figures.rank_correlation.has_value());
}

// Errors +10 %, -20 %, +30 %, 0: mean absolute 15 %, bias 5 %. Sorted 0, 10, 20, 30: the second is
// the median and the fourth (ceil of 3.6) the 90th percentile.
TEST(AccuracyFigures, CountErrorsInPartsOfWhatWasMeasured) {
  const AccuracyFigures figures = FiguresOf({{1, 1.1}, {10, 8}, {100, 130}, {1000, 1000}});
  EXPECT_EQ(figures.cases, 4u);
  EXPECT_NEAR(figures.mean, 0.15, 1e-12);
  EXPECT_NEAR(figures.bias, 0.05, 1e-12);
  EXPECT_NEAR(figures.median, 0.10, 1e-12);
  EXPECT_NEAR(figures.p90, 0.30, 1e-12);
  EXPECT_NEAR(figures.rank_correlation.value(), 1, 1e-12);
}

// Ranks 1 2 3 4 against 1 3 2 4: differences 0 1 1 0, so 1 - 6 x 2 / (4 x 15) = 0.8.
TEST(AccuracyFigures, CompareOrders) {
  EXPECT_NEAR(FiguresOf({{1, 10}, {2, 30}, {3, 20}, {4, 40}}).rank_correlation.value(), 0.8, 1e-12);
  EXPECT_NEAR(FiguresOf({{1, 3}, {2, 2}, {3, 1}}).rank_correlation.value(), -1, 1e-12);
}

// Measured ranks 1, 2.5, 2.5, 4; forecast 1 2 3 4. Deviations from 2.5: (-1.5, 0, 0, 1.5) and
// (-1.5, -0.5, 0.5, 1.5): 4.5 / sqrt(4.5 x 5).
TEST(AccuracyFigures, EqualValuesShareTheirRank) {
  EXPECT_NEAR(FiguresOf({{1, 1}, {2, 2}, {2, 3}, {4, 4}}).rank_correlation.value(),
              0.9486832980505138, 1e-12);
  EXPECT_FALSE(FiguresOf({{2, 1}, {2, 2}, {2, 3}}).rank_correlation.has_value());
}

}  // namespace
}  // namespace stepcast::validate
