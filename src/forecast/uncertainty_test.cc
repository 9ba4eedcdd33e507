#include "src/forecast/uncertainty.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"

namespace stepcast::forecast {
namespace {

PartTimes Exposed(Time gemm, Time collective, Time idle) {
  PartTimes times{};
  times[static_cast<std::size_t>(Part::kGemm)] = gemm;
  times[static_cast<std::size_t>(Part::kCollective)] = collective;
  times[static_cast<std::size_t>(Part::kIdle)] = idle;
  return times;
}

// Half of the range in seconds.
double Half(const std::optional<TimeRange>& range) {
  return (range->high - range->low).seconds() / 2;
}

constexpr double kFactor = 1.4826 * 1.6449;

TEST(Uncertainty, IsNotKnownWithoutResiduals) {
  EXPECT_FALSE(StepTimeRange(Exposed(Seconds(1), {}, {}), Seconds(1), {}).has_value());
  EXPECT_FALSE(
      StepTimeRange(Exposed(Seconds(1), {}, {}), Seconds(1), {{"copies", 0.1, 0.1}}).has_value());
  EXPECT_FALSE(MemoryRange(GiB(1), {{"gemm", 0.1, 0}}).has_value());
}

// Spread 3 % and interpolation 4 % combine to 5 %. Matrix products of 6 s: 0.3 s.
TEST(Uncertainty, OfAPartIsSystematic) {
  const auto range = StepTimeRange(Exposed(Seconds(6), {}, {}), Seconds(6), {{"gemm", 0.03, 0.04}});
  ASSERT_TRUE(range.has_value());
  EXPECT_NEAR(Half(range), kFactor * 0.3, 1e-9);
  EXPECT_NEAR((range->low + range->high).seconds() / 2, 6, 1e-9);
}

// 0.3 s of matrix products and 0.4 s of collectives combine to 0.5 s. With 1.2 s for the whole step
// it is 1.3 s.
TEST(Uncertainty, OfPartsIsIndependent) {
  const PartTimes exposed = Exposed(Seconds(6), Seconds(4), {});
  std::vector<calibration::Residual> residuals = {{"gemm", 0.05, 0}, {"collectives", 0.1, 0}};
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(12), residuals)), kFactor * 0.5, 1e-9);
  residuals.push_back({"step", 0.1, 0});
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(12), residuals)), kFactor * 1.3, 1e-9);
}

// The host's 4 s have no residual, so they use the 10 % of the collectives.
TEST(Uncertainty, OfAPartWithoutResidualIsTheLargest) {
  const auto range = StepTimeRange(Exposed(Seconds(6), {}, Seconds(4)), Seconds(10),
                                   {{"gemm", 0.05, 0}, {"collectives", 0.1, 0}});
  EXPECT_NEAR(Half(range), kFactor * 0.5, 1e-9);
}

// With 10 % for the whole step, parts without a residual add nothing.
TEST(Uncertainty, OfStepsCoversPartsWithoutResidual) {
  const PartTimes exposed = Exposed(Seconds(6), {}, Seconds(4));
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(10), {{"step", 0.1, 0}})), kFactor, 1e-9);
  EXPECT_NEAR(
      Half(StepTimeRange(exposed, Seconds(12), {{"step", 0.1, 0}, {"gemm", 0, 0.05 / 0.6}})),
      kFactor * 1.3, 1e-9);
}

// 3 % within a source and 4 % between sources combine to 5 % of the step. Without other residuals,
// the residual of sources covers all parts, as the residual of steps does.
TEST(Uncertainty, OfSourcesComesOnTop) {
  const PartTimes exposed = Exposed(Seconds(6), {}, Seconds(4));
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(10), {{"step", 0.03, 0}, {"source", 0, 0.04}})),
              kFactor * 0.5, 1e-9);
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(10), {{"source", 0, 0.04}})), kFactor * 0.4,
              1e-9);
}

// 60 % of the step: the lower end is step / (4 x 0.6).
TEST(Uncertainty, LowerEndIsMoreThanZero) {
  const auto range =
      StepTimeRange(Exposed(Seconds(12), {}, {}), Seconds(12), {{"step", 0.6 / kFactor, 0}});
  ASSERT_TRUE(range.has_value());
  EXPECT_NEAR(range->low.seconds(), 5, 1e-6);
  EXPECT_NEAR(range->high.seconds(), 19.2, 1e-6);
}

// If devices make a step 4 % longer, the range allows 0 or 8 %; 3 % of sources are added.
TEST(Uncertainty, OfDevicesGrowsWithTheirNumber) {
  const PartTimes exposed = Exposed(Seconds(6), {}, Seconds(4));
  const double sources = 0.03 / kFactor;
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(10), {{"source", 0, sources}}, 0.04)), 0.5, 1e-6);
  EXPECT_NEAR(Half(StepTimeRange(exposed, Seconds(10), {{"source", 0, sources}}, 0)), 0.3, 1e-6);
  EXPECT_FALSE(StepTimeRange(exposed, Seconds(10), {}, 0.04).has_value());
}

// A Cauchy distribution's quartiles lie one scale from its median. 90 % of its values lie within
// tan(0.45 pi) = 6.3138 scales, the range of a peak. The median of published peaks on devices that
// are not full is 0.1 % below the forecasts.
TEST(Uncertainty, OfWhatFitsIsACauchyDistributionOverTheRangeOfAPeak) {
  const std::vector<calibration::Residual> residuals = {{"memory", 0, 0.04}};
  const double range = kFactor * 0.04;
  constexpr double kMedian = -0.001;
  const auto at = [&](double part) {
    constexpr double kReserved = 1e12;
    return FitProbability(Bytes(std::llround((1 + part) * kReserved)),
                          Bytes(std::llround(kReserved)), residuals);
  };
  EXPECT_NEAR(at(kMedian), 0.5, 1e-9);
  EXPECT_NEAR(at(kMedian + range), 0.95, 1e-9);
  EXPECT_NEAR(at(kMedian - range), 0.05, 1e-9);
  EXPECT_NEAR(at(kMedian + range / 6.3138), 0.75, 1e-5);
  EXPECT_LT(at(-1), 0.01);
  EXPECT_EQ(FitProbability(GiB(1), Bytes(), residuals), 1);
  // Plans leave the memory free at which the probability is kLikelyFit.
  EXPECT_NEAR(MemoryError(residuals), kMedian + range / 6.3138, 1e-6);
  EXPECT_NEAR(at(MemoryError(residuals)), kLikelyFit, 1e-9);
  EXPECT_EQ(MemoryError({}), MemoryError({{"memory", 0, kMemoryResidual}}));
}

TEST(Uncertainty, OfMemoryFollowsItsResidual) {
  const auto range = MemoryRange(GiB(100), {{"memory", 0.03, 0.04}});
  ASSERT_TRUE(range.has_value());
  EXPECT_NEAR(static_cast<double>((range->high - range->low).count()) / 2,
              kFactor * 5.0 * 1024 * 1024 * 1024, 1);
}

}  // namespace
}  // namespace stepcast::forecast
