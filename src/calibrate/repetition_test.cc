#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/calibrate/statistics.h"

namespace stepcast::calibrate {
namespace {

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
