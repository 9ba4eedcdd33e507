#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/calibrate/statistics.h"

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

}  // namespace
}  // namespace stepcast::calibrate
