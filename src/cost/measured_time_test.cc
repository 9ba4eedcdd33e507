#include <cmath>
#include <cstddef>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

using calibration::Curve;
using calibration::GemmSurface;

// Product times that are linear in the logarithms: t = c m^a n^b k^d.
GemmSurface PowerLaw(std::vector<std::int64_t> axis, double scale, double a, double b, double d) {
  GemmSurface surface{.m = axis, .n = axis, .k = axis, .times = {}};
  for (std::int64_t m : axis) {
    for (std::int64_t n : axis) {
      for (std::int64_t k : axis) {
        const double time = scale * std::pow(m, a) * std::pow(n, b) * std::pow(k, d);
        surface.times.push_back(Picoseconds(std::llround(time)));
      }
    }
  }
  return surface;
}

TEST(CurveTest, ReadsBetweenAndOutside) {
  const Curve curve = {{Bytes(1000), Microseconds(3)}, {Bytes(3000), Microseconds(7)}};
  const struct {
    std::int64_t bytes;
    Time time;
    Provenance provenance;
  } cases[] = {
      {0, Microseconds(3), Provenance::kExtrapolated},
      {1000, Microseconds(3), Provenance::kMeasured},
      {1500, Microseconds(4), Provenance::kInterpolated},  // a quarter of the way
      {3000, Microseconds(7), Provenance::kMeasured},
      {6000, Microseconds(14), Provenance::kExtrapolated},  // at 3000 bytes in 7 us
  };
  for (const auto& [bytes, time, provenance] : cases) {
    const MeasuredTime measured = TimeFromCurve(curve, Bytes(bytes));
    EXPECT_EQ(measured.time, time) << bytes;
    EXPECT_EQ(measured.provenance, provenance) << bytes;
  }
}

// 2 us to start and 1 us per 1000 bytes, also beyond the last point. The point before it is too
// close to determine the rate.
TEST(CurveTest, GoesOnAtTheRateOfItsEnd) {
  const Curve curve = {{Bytes(1000), Microseconds(3)},
                       {Bytes(7000), Nanoseconds(9100)},
                       {Bytes(8000), Microseconds(10)}};
  EXPECT_EQ(TimeFromCurve(curve, Bytes(15000)).time, Microseconds(17));
  EXPECT_EQ(TimeFromCurve(curve, Bytes(15000)).provenance, Provenance::kExtrapolated);
}

TEST(CurveTest, FallsWhereTheMeasurementFalls) {
  const Curve curve = {{Bytes(1000), Microseconds(5)}, {Bytes(2000), Microseconds(4)}};
  EXPECT_EQ(TimeFromCurve(curve, Bytes(1500)).time, Nanoseconds(4500));
}

// A start-up cost and a rate are recovered exactly from any points.
RC_GTEST_PROP(CurveTest, IsExactForStartAndRate, ()) {
  const auto start = *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  const auto rate = *rc::gen::inRange<std::int64_t>(1, 1'000);
  Curve curve;
  for (int i = 0; i < 12; ++i) {
    const std::int64_t bytes = std::int64_t{1} << i;
    curve.emplace_back(Bytes(bytes), Picoseconds(start + rate * bytes));
  }
  const auto bytes = *rc::gen::inRange<std::int64_t>(1, 2049);
  const auto got = TimeFromCurve(curve, Bytes(bytes)).time.picoseconds();
  // Each of two terms may round up.
  RC_ASSERT(got >= start + rate * bytes && got <= start + rate * bytes + 2);
}

TEST(SurfaceTest, GivesBackItsPoints) {
  const GemmSurface surface = PowerLaw({64, 256, 1024}, 10, 1, 0.9, 0.8);
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t n = 0; n < 3; ++n) {
      for (std::size_t k = 0; k < 3; ++k) {
        const MeasuredTime measured =
            TimeFromSurface(surface, surface.m[m], surface.n[n], surface.k[k]);
        EXPECT_EQ(measured.time, surface.at(m, n, k));
        EXPECT_EQ(measured.provenance, Provenance::kMeasured);
      }
    }
  }
}

// Between points the logarithm of the time is linear in the logarithm of each size.
RC_GTEST_PROP(SurfaceTest, IsExactForPowerLaws, ()) {
  const auto exponent = [] { return *rc::gen::inRange(0, 121) / 100.0; };
  const double a = exponent();
  const double b = exponent();
  const double d = exponent();
  const GemmSurface surface = PowerLaw({64, 256, 1024, 2048}, 1e6, a, b, d);
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(64, 2049); };
  const std::int64_t m = size();
  const std::int64_t n = size();
  const std::int64_t k = size();
  const double want = 1e6 * std::pow(m, a) * std::pow(n, b) * std::pow(k, d);
  const MeasuredTime got = TimeFromSurface(surface, m, n, k);
  RC_ASSERT(std::abs(static_cast<double>(got.time.picoseconds()) / want - 1) < 1e-5);
  RC_ASSERT(got.provenance <= Provenance::kInterpolated);
}

TEST(SurfaceTest, ScalesBeyondAndStaysBelow) {
  const GemmSurface surface = PowerLaw({64, 128}, 100, 1, 1, 1);
  const Time corner = Picoseconds(100 * 128 * 128 * 128);
  // Twice the rows and three times the columns at the throughput of the corner.
  const MeasuredTime beyond = TimeFromSurface(surface, 256, 384, 128);
  EXPECT_EQ(beyond.time, 6 * corner);
  EXPECT_EQ(beyond.provenance, Provenance::kExtrapolated);
  // A single row takes as long as 64.
  const MeasuredTime below = TimeFromSurface(surface, 1, 128, 128);
  EXPECT_EQ(below.time, TimeFromSurface(surface, 64, 128, 128).time);
  EXPECT_EQ(below.provenance, Provenance::kExtrapolated);
}

TEST(DemandOfTest, StartIsLatencyAndTheRestWork) {
  const MeasuredTime measured{Microseconds(10), Provenance::kInterpolated};
  const Demand demand = DemandOf(measured, Microseconds(3), true);
  EXPECT_EQ(demand.latency, Microseconds(3));
  EXPECT_EQ(demand.work, Microseconds(7));
  EXPECT_EQ(demand.provenance, Provenance::kInterpolated);
  EXPECT_EQ(DemandOf(measured, Microseconds(3), false).uncontended(), Microseconds(7));
  // A kernel that is over before an ordinary one has started.
  EXPECT_EQ(DemandOf(measured, Microseconds(30), true).uncontended(), Microseconds(10));
}

}  // namespace
}  // namespace stepcast::cost
