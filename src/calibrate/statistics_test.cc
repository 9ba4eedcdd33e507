#include "src/calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::calibrate {
namespace {

double Between(std::int64_t least, std::int64_t most) {
  return static_cast<double>(*rc::gen::inRange<std::int64_t>(least, most + 1));
}

// 30 points, of which at most a fifth are outliers. Fewer than half of all pairs include an outlier
// (1 - 0.8^2 = 36 %), so the median slope is among those of good pairs.
RC_GTEST_PROP(FitLineTest, OutliersDoNotMoveIt, ()) {
  const double start = Between(-1000, 1000);
  const double slope = Between(-100, 100);
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 30; ++i) points.emplace_back(i, start + slope * i);
  for (int i = 0; i < 6; ++i) {
    points[static_cast<std::size_t>(Between(0, 29))].second = Between(-100'000, 100'000);
  }
  const Line line = FitLine(points);
  RC_ASSERT(std::abs(line.slope - slope) < 1e-9);
  RC_ASSERT(std::abs(line.at_zero - start) < 1e-9);
}

// A start of 10 us to 1 ms and 0.01 to 10 ns per byte, over sizes from 64 B to 1 GiB: the start
// dominates at one end and the rate at the other. With 5 % of noise either way and every seventh
// point twice as slow, both are recovered within 10 %.
RC_GTEST_PROP(FitStartAndRateTest, RecoversTheLawUnderNoise, ()) {
  const double start = 1e-6 * Between(10, 1000);
  const double rate = 1e-11 * Between(1, 1000);
  std::vector<std::pair<double, double>> points;
  for (int i = 6; i <= 30; ++i) {
    const double size = std::exp2(i);
    const double noise = 1 + 0.05 * Between(-100, 100) / 100;
    points.emplace_back(size, (start + rate * size) * noise * (i % 7 == 0 ? 2 : 1));
  }
  const bool start_rules = rate * 16384 < 0.1 * start;        // over the lower third of the sizes
  const bool rate_rules = rate * std::exp2(23) > 10 * start;  // over the upper third
  RC_PRE(start_rules && rate_rules);
  const Line line = FitStartAndRate(points);
  RC_ASSERT(std::abs(line.at_zero / start - 1) < 0.1);
  RC_ASSERT(std::abs(line.slope / rate - 1) < 0.1);
}

TEST(NonDecreasingTest, PoolsWhatFalls) {
  EXPECT_EQ(NonDecreasing({1, 2, 3}), (std::vector<double>{1, 2, 3}));
  // 5 and 3 pool to 4; then 4, 4 and 1 pool to 3; all of them exceed 2.
  EXPECT_EQ(NonDecreasing({2, 5, 3, 1}), (std::vector<double>{2, 3, 3, 3}));
  EXPECT_EQ(NonDecreasing({}), std::vector<double>());
}

RC_GTEST_PROP(NonDecreasingTest, DoesNotFallAndKeepsTheSum, (std::vector<std::uint16_t> raw)) {
  const std::vector<double> values(raw.begin(), raw.end());
  const std::vector<double> fitted = NonDecreasing(values);
  RC_ASSERT(fitted.size() == values.size());
  RC_ASSERT(std::is_sorted(fitted.begin(), fitted.end()));
  double difference = 0;
  for (std::size_t i = 0; i < values.size(); ++i) difference += values[i] - fitted[i];
  RC_ASSERT(std::abs(difference) < 1e-6 * (1 + 65536.0 * static_cast<double>(values.size())));
}

TEST(SummaryTest, ByHand) {
  // 1 to 9 and 100: the median is between 5 and 6. Positions 0.9 and 8.1 of 0 to 9 are the
  // percentiles; deviations from 5.5 have a median of 2.5.
  const Summary summary = Summarise({100, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_DOUBLE_EQ(summary.median, 5.5);
  EXPECT_DOUBLE_EQ(summary.low, 1.9);
  EXPECT_NEAR(summary.high, 9 + 0.1 * 91, 1e-9);
  EXPECT_DOUBLE_EQ(summary.spread, 2.5 / 5.5);
  EXPECT_EQ(summary.count, 10u);
}

TEST(RepetitionTest, SteadyValuesAreEnoughAtOnce) {
  const Repetition repetition{.least = 3, .most = 100, .uncertainty = 0.01, .limit = Seconds(1)};
  EXPECT_FALSE(Enough(repetition, Summarise({1e-3, 1e-3}), Milliseconds(2)));
  EXPECT_TRUE(Enough(repetition, Summarise({1e-3, 1e-3, 1e-3}), Milliseconds(3)));
}

TEST(RepetitionTest, LimitsEndIt) {
  const Repetition repetition{.least = 3, .most = 5, .uncertainty = 0.01, .limit = Seconds(1)};
  const std::vector<double> wild = {0.1, 0.3, 0.9};
  EXPECT_FALSE(Enough(repetition, Summarise(wild), Milliseconds(999)));
  EXPECT_TRUE(Enough(repetition, Summarise(wild), Seconds(1)));
  EXPECT_TRUE(Enough(repetition, Summarise({0.1, 0.3, 0.9, 0.5, 0.2}), Milliseconds(10)));
  // Not before the least number was measured.
  EXPECT_FALSE(Enough(repetition, Summarise({0.1, 0.9}), Seconds(9)));
}

// For any scatter, the batches end within the largest number of repetitions.
RC_GTEST_PROP(RepetitionTest, AlwaysStops, ()) {
  const Repetition repetition{.least = 5, .most = 200, .uncertainty = 0.01, .limit = Seconds(60)};
  std::vector<double> samples;
  int batches = 0;
  while (true) {
    if (!samples.empty()) {
      const Summary so_far = Summarise(samples);
      if (Enough(repetition, so_far, Time())) break;
      const std::size_t next = NextBatch(repetition, so_far, Time());
      RC_ASSERT(next >= 1u && samples.size() + next <= repetition.most);
      for (std::size_t i = 0; i < next; ++i) {
        samples.push_back(1e-3 * static_cast<double>(*rc::gen::inRange(1, 100)));
      }
    } else {
      samples.push_back(1e-3);
    }
    RC_ASSERT(++batches < 200);
  }
}

TEST(RepetitionTest, AsksForWhatTheUncertaintySuggests) {
  const Repetition repetition{.least = 4, .most = 1000, .uncertainty = 0.01, .limit = Seconds(60)};
  Summary summary;
  summary.median = 1e-3;
  summary.count = 16;
  // 1.253 x 1.483 x 0.03 / 4 = 1.39 %: (1.39^2 - 1) x 16 = 15.07 more.
  summary.spread = 0.03;
  EXPECT_EQ(NextBatch(repetition, summary, Time()), 15u);
  // Ten times the uncertainty: at most as many as before.
  summary.spread = 0.3;
  EXPECT_EQ(NextBatch(repetition, summary, Time()), 16u);
  // 3 ms are left, enough for three.
  EXPECT_EQ(NextBatch(repetition, summary, Seconds(60) - Nanoseconds(3'000'100)), 3u);
}

}  // namespace

}  // namespace stepcast::calibrate
