#include "src/calibration/learned_runs.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::calibration {
namespace {

RunSettings Settings(std::int64_t gpus, const std::string& precision = "bf16") {
  RunSettings settings;
  settings.sizes.fill(1);
  settings.sizes[static_cast<std::size_t>(RunSize::kGpus)] = gpus;
  settings.kinds.fill("a");
  settings.kinds[static_cast<std::size_t>(RunKind::kPrecision)] = precision;
  return settings;
}

// With the variances n = 0.045^2, w = 0.022^2 and e = 0.01^2, one run y predicts (n + w) / (n + w +
// e) y for its own settings: 0.002509 / 0.002609 = 0.96167.
TEST(LearnedRuns, OneRunByItself) {
  const LearnedRuns runs({{Settings(8), 0.1, 1}});
  const LearnedRuns::Estimate same = runs.At(Settings(8));
  EXPECT_NEAR(same.log_ratio, 0.096167, 1e-6);
  EXPECT_NEAR(same.known, 0.96167, 1e-5);
  // The remaining variance, 0.002509 (1 - 0.96167), plus the noise.
  EXPECT_NEAR(same.deviation, std::sqrt(0.002509 * 0.03833 + 0.0001), 1e-6);
  // Two doublings are one length: n exp(-1/2) + w exp(-1/32) = 0.0016973.
  EXPECT_NEAR(runs.At(Settings(32)).log_ratio, 0.1 * 0.0016973 / 0.002609, 1e-5);
  // Another kind has the same distance.
  EXPECT_NEAR(runs.At(Settings(8, "fp8")).log_ratio, runs.At(Settings(32)).log_ratio, 1e-12);
}

// A setting missing in an older profile makes no difference.
TEST(LearnedRuns, WhatIsNotKnownIsNoDifference) {
  RunSettings known = Settings(8), unknown = Settings(8);
  known.sizes[static_cast<std::size_t>(RunSize::kNetwork)] = 50'000;
  unknown.sizes[static_cast<std::size_t>(RunSize::kNetwork)] = 0;
  unknown.kinds[static_cast<std::size_t>(RunKind::kTorch)] = "";
  EXPECT_EQ(LearnedRuns::Likeness(known, unknown), 1);
  unknown.sizes[static_cast<std::size_t>(RunSize::kNetwork)] = 12'500;
  EXPECT_EQ(LearnedRuns::Likeness(known, unknown), LearnedRuns::Likeness(Settings(8), Settings(2)));
}

TEST(LearnedRuns, RepeatsAreKnownBetter) {
  const LearnedRuns one({{Settings(8), 0.1, 1}});
  const LearnedRuns many({{Settings(8), 0.1, 100}});
  EXPECT_GT(many.At(Settings(8)).log_ratio, one.At(Settings(8)).log_ratio);
  EXPECT_LT(many.At(Settings(8)).deviation, one.At(Settings(8)).deviation);
  EXPECT_GE(many.At(Settings(8)).deviation, kRepeatDeviation);
}

// Forty doublings apart, there is no correction, and the deviation is the prior's.
TEST(LearnedRuns, FarFromAllRunsNothingChanges) {
  const LearnedRuns runs({{Settings(8), 0.2, 1}, {Settings(16), 0.2, 1}});
  const LearnedRuns::Estimate far = runs.At(Settings(std::int64_t{8} << 40));
  EXPECT_NEAR(far.log_ratio, 0, 1e-5);
  EXPECT_NEAR(far.known, 0, 1e-4);
}

std::vector<LearnedRun> SomeRuns() {
  const auto ratios = *rc::gen::suchThat(
      rc::gen::container<std::vector<int>>(rc::gen::inRange(-200, 200)),
      [](const std::vector<int>& values) { return !values.empty() && values.size() < 12; });
  std::vector<LearnedRun> runs;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    runs.push_back({Settings(static_cast<std::int64_t>(8 + 5 * i), i % 3 == 0 ? "fp8" : "bf16"),
                    ratios[i] / 1000.0, 1 + static_cast<int>(i % 4)});
  }
  return runs;
}

// Leaving a run out equals estimating it from the others.
RC_GTEST_PROP(LearnedRuns, LeavingOneOutIsEstimatingFromTheOthers, ()) {
  std::vector<LearnedRun> all = SomeRuns();
  RC_PRE(all.size() >= 2U);
  const std::vector<LearnedRuns::Estimate> left_out = LearnedRuns(all).LeavingOneOut();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<LearnedRun> others = all;
    others.erase(others.begin() + static_cast<int>(i));
    const LearnedRuns::Estimate estimate = LearnedRuns(others).At(all[i].settings);
    RC_ASSERT(std::abs(estimate.log_ratio - left_out[i].log_ratio) < 1e-9);
    RC_ASSERT(std::abs(estimate.deviation - left_out[i].deviation) < 1e-9);
    RC_ASSERT(std::abs(estimate.known - left_out[i].known) < 1e-9);
  }
}

// An additional run never reduces knowledge.
RC_GTEST_PROP(LearnedRuns, MoreRunsAreKnownBetter, ()) {
  std::vector<LearnedRun> all = SomeRuns();
  RC_PRE(all.size() >= 2U);
  const RunSettings anywhere = Settings(*rc::gen::inRange(1, 1000), "bf16");
  const double with = LearnedRuns(all).At(anywhere).deviation;
  all.pop_back();
  RC_ASSERT(with <= LearnedRuns(all).At(anywhere).deviation + 1e-12);
}

}  // namespace
}  // namespace stepcast::calibration
