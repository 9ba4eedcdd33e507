#include "src/cost/curve_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::cost {
namespace {

using calibration::TimePoint;

TEST(CurveFactor, IsMeasuredOverLawAtThePoints) {
  const std::vector<TimePoint> points = {
      {KiB(1), Microseconds(10)}, {KiB(4), Microseconds(11)}, {MiB(1), Microseconds(50)}};
  const std::vector<double> law = {5, 11, 100};
  const double factors[] = {2, 1, 0.5};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CurveFactor at = FactorOnCurve(points, law, static_cast<double>(points[i].first.count()));
    EXPECT_DOUBLE_EQ(at.factor, factors[i]);
    EXPECT_EQ(at.provenance, Provenance::kMeasured);
  }
}

TEST(CurveFactor, StaysBeyondTheEnds) {
  const std::vector<TimePoint> points = {{KiB(1), Microseconds(10)}, {MiB(1), Microseconds(50)}};
  const std::vector<double> law = {5, 100};
  EXPECT_DOUBLE_EQ(FactorOnCurve(points, law, 1).factor, 2);
  EXPECT_EQ(FactorOnCurve(points, law, 1).provenance, Provenance::kExtrapolated);
  EXPECT_DOUBLE_EQ(FactorOnCurve(points, law, 3e6).factor, 0.5);
  EXPECT_EQ(FactorOnCurve(points, law, 3e6).provenance, Provenance::kExtrapolated);
}

TEST(CurveFactor, IsTheGeometricMeanHalfwayBetweenTwoPoints) {
  // 2 KiB is halfway between 1 and 4 KiB on a logarithm: between 2 and 1/2 it is 1.
  const std::vector<TimePoint> points = {{KiB(1), Microseconds(10)}, {KiB(4), Microseconds(20)}};
  const std::vector<double> law = {5, 40};
  EXPECT_NEAR(FactorOnCurve(points, law, 2048).factor, 1, 1e-12);
  EXPECT_EQ(FactorOnCurve(points, law, 2048).provenance, Provenance::kInterpolated);
}

// The measured times are the law times a constant: the shape is kept, however far apart the points
// are.
TEST(CurveFactor, KeepsTheLawsShapeBetweenPointsFarApart) {
  const auto law_at = [](double bytes) { return 20 + bytes / 1e5; };
  const std::vector<TimePoint> points = {{KiB(1), Nanoseconds(30'015)},  // 1.5 x 20.01024
                                         {GiB(1), Picoseconds(16'136'127'360)}};
  const std::vector<double> law = {law_at(1024), law_at(1073741824)};
  for (double bytes = 2048; bytes < 1e9; bytes *= 2) {
    EXPECT_NEAR(FactorOnCurve(points, law, bytes).factor, 1.5, 0.001) << bytes;
  }
}

RC_GTEST_PROP(CurveFactor, LiesBetweenTheFactorsOfItsNeighbours, ()) {
  const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
      5, rc::gen::tuple(rc::gen::inRange(1, 5000), rc::gen::inRange(1, 900),
                        rc::gen::inRange(1, 900)));
  std::vector<TimePoint> points;
  std::vector<double> law;
  Bytes size = KiB(1);
  for (const auto& [more_size, time, law_time] : steps) {
    points.emplace_back(size, Microseconds(time));
    law.push_back(law_time);
    size += KiB(more_size);
  }
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double a = points[i].second.microseconds() / law[i];
    const double b = points[i + 1].second.microseconds() / law[i + 1];
    const double middle =
        static_cast<double>(points[i].first.count() + points[i + 1].first.count()) / 2;
    const double factor = FactorOnCurve(points, law, middle).factor;
    RC_ASSERT(factor >= std::min(a, b) * (1 - 1e-9));
    RC_ASSERT(factor <= std::max(a, b) * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace stepcast::cost
