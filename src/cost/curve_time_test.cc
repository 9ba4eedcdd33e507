#include "src/cost/curve_time.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::cost {
namespace {

using calibration::TimePoint;

TEST(CurveTime, IsThePointsThemselves) {
  const std::vector<TimePoint> points = {
      {KiB(1), Microseconds(10)}, {KiB(4), Microseconds(11)}, {MiB(1), Microseconds(50)}};
  for (const auto& [size, time] : points) {
    const CurveTime at = TimeOnCurve(points, static_cast<double>(size.count()));
    EXPECT_DOUBLE_EQ(at.microseconds, time.microseconds());
    EXPECT_EQ(at.provenance, Provenance::kMeasured);
  }
}

TEST(CurveTime, KeepsItsFirstTimeBelowAndItsRateBeyond) {
  const std::vector<TimePoint> points = {{KiB(1), Microseconds(10)}, {MiB(1), Microseconds(50)}};
  EXPECT_DOUBLE_EQ(TimeOnCurve(points, 1).microseconds, 10);
  EXPECT_EQ(TimeOnCurve(points, 1).provenance, Provenance::kExtrapolated);
  EXPECT_DOUBLE_EQ(TimeOnCurve(points, 3 * 1048576.0).microseconds, 150);
}

TEST(CurveTime, IsStraightOnLogarithmicAxesBetweenTwoPoints) {
  // Four times the size in twice the time: the size in the middle, on a logarithm, takes sqrt(2).
  const std::vector<TimePoint> points = {{KiB(1), Microseconds(10)}, {KiB(4), Microseconds(20)}};
  EXPECT_NEAR(TimeOnCurve(points, 2048).microseconds, 10 * std::sqrt(2.0), 1e-9);
  EXPECT_EQ(TimeOnCurve(points, 2048).provenance, Provenance::kInterpolated);
}

// A start-up cost and a rate, measured at every fourth power of two, and read in between: within
// 2 %, where straight lines on logarithmic axes would miss by 6 %.
TEST(CurveTime, FollowsAStartUpCostAndARate) {
  const auto time = [](double bytes) { return 20 + bytes / 1e5; };
  std::vector<TimePoint> points;
  for (std::int64_t bytes = 1 << 12; bytes <= 1 << 30; bytes *= 4) {
    points.emplace_back(
        Bytes(bytes),
        Picoseconds(static_cast<std::int64_t>(time(static_cast<double>(bytes)) * 1e6)));
  }
  for (double bytes = 1 << 13; bytes < 1 << 30; bytes *= 4) {
    EXPECT_NEAR(TimeOnCurve(points, bytes).microseconds / time(bytes), 1, 0.02) << bytes;
  }
}

RC_GTEST_PROP(CurveTime, RisesWherePointsRise, ()) {
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      5, rc::gen::pair(rc::gen::inRange(1, 5000), rc::gen::inRange(1, 900)));
  std::vector<TimePoint> points;
  Bytes size = KiB(1);
  Time time = Microseconds(5);
  for (const auto& [more_size, more_time] : steps) {
    points.emplace_back(size, time);
    size += KiB(more_size);
    time += Microseconds(more_time);
  }
  double last = 0;
  const auto from = static_cast<double>(points.front().first.count());
  const auto to = static_cast<double>(points.back().first.count());
  for (int i = 0; i <= 200; ++i) {
    const double t = TimeOnCurve(points, from + (to - from) * i / 200).microseconds;
    RC_ASSERT(t >= last * (1 - 1e-12));
    last = t;
  }
}

}  // namespace
}  // namespace stepcast::cost
