#include "src/calibrate/run_fit.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::calibrate {
namespace {

using calibration::RunKind;
using calibration::RunSettings;
using calibration::RunSize;

MeasuredRun Measured(std::int64_t gpus, const std::string& precision, double ratio) {
  MeasuredRun run;
  run.settings.sizes.fill(1);
  run.settings.sizes[static_cast<std::size_t>(RunSize::kGpus)] = gpus;
  run.settings.kinds.fill("a");
  run.settings.kinds[static_cast<std::size_t>(RunKind::kPrecision)] = precision;
  run.forecast = 2;
  run.measured = 2 * ratio;
  return run;
}

// All steps are 5 % longer than forecast, and similar runs predict that for each.
TEST(FitRuns, LearnsWhatRunsHaveInCommon) {
  std::vector<MeasuredRun> runs;
  for (const int gpus : {8, 16, 32, 64, 128}) runs.push_back(Measured(gpus, "bf16", 1.05));
  const RunFit fit = FitRuns(runs);
  ASSERT_TRUE(fit.learned.has_value());
  ASSERT_EQ(fit.configurations.size(), 5U);
  for (const Configuration& configuration : fit.configurations) {
    ASSERT_TRUE(configuration.left_out.has_value());
    EXPECT_NEAR(configuration.left_out->log_ratio, std::log(1.05), 0.015);
  }
  EXPECT_TRUE(fit.settings.empty());
}

TEST(FitRuns, EqualSettingsAreOneConfiguration) {
  const RunFit fit =
      FitRuns({Measured(8, "bf16", 1.0), Measured(16, "bf16", 1.0), Measured(8, "bf16", 1.21)});
  ASSERT_EQ(fit.configurations.size(), 2U);
  EXPECT_THAT(fit.configurations[0].members, testing::ElementsAre(0U, 2U));
  EXPECT_EQ(fit.configurations[0].run.repeats, 2);
  EXPECT_NEAR(fit.configurations[0].run.log_ratio, std::log(1.1), 1e-12);
}

// A single run is known as well as a repeated measurement: of the variance of its error, 1 %
// squared of 1 % + 4.5 % + 2.2 % is scatter.
TEST(FitRuns, TheOnlyRunTeachesOneFactor) {
  const RunFit fit = FitRuns({Measured(8, "bf16", 1.1)});
  ASSERT_TRUE(fit.learned.has_value());
  EXPECT_FALSE(fit.configurations[0].left_out.has_value());
  const auto estimate = fit.learned->At(fit.configurations[0].run.settings);
  const double prior =
      std::pow(calibration::kNearDeviation, 2) + std::pow(calibration::kWideDeviation, 2);
  const double scatter = std::pow(calibration::kRepeatDeviation, 2);
  EXPECT_NEAR(estimate.log_ratio, std::log(1.1) * prior / (prior + scatter), 1e-9);
}

// One of ten configurations is 30 % longer than forecast and teaches its neighbors a wrong
// correction, which is smaller than the scatter of the ten. If all are 5 % longer, they teach one
// another.
TEST(FitRuns, IsUsefulBeyondOneStandardError) {
  std::vector<MeasuredRun> scattered, common;
  for (int i = 0; i < 10; ++i) {
    scattered.push_back(Measured(8 << i, "bf16", i == 4 ? 1.3 : 1));
    common.push_back(Measured(8 << i, "bf16", 1.05));
  }
  EXPECT_FALSE(FitRuns(scattered).useful);
  EXPECT_TRUE(FitRuns(common).useful);
  EXPECT_TRUE(FitRuns({common[0]}).useful);
}

// 1 and 2^40 GPUs are forty doublings apart: 400 squared lengths.
TEST(FitRuns, ARunFarFromAllOthersChangesNothing) {
  const std::int64_t far = std::int64_t{1} << 40;
  const RunFit fit =
      FitRuns({Measured(1, "bf16", 1.1), Measured(2, "bf16", 1.1), Measured(far, "bf16", 3)});
  ASSERT_EQ(fit.configurations.size(), 3U);
  EXPECT_FALSE(fit.configurations[2].left_out.has_value());
  ASSERT_TRUE(fit.learned.has_value());
  EXPECT_EQ(fit.learned->runs().size(), 2U);
  EXPECT_FALSE(FitRuns({Measured(1, "bf16", 1.1), Measured(far, "bf16", 3)}).learned.has_value());
}

// FP8 takes 12 % longer than forecast, and other precisions are exact; the number of GPUs does not
// matter.
TEST(FitRuns, NamesTheSettingThatResidualsGoWith) {
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 6; ++i) {
    const double noise = i % 2 == 0 ? 1.004 : 0.996;
    runs.push_back(Measured(8 << i, "bf16", noise));
    runs.push_back(Measured(8 << i, "fp8", 1.12 * noise));
  }
  const RunFit fit = FitRuns(runs);
  ASSERT_EQ(fit.settings.size(), 1U);
  EXPECT_EQ(fit.settings[0].setting, "precision: fp8");
  EXPECT_EQ(fit.settings[0].runs, 6U);
  EXPECT_NEAR(std::exp(fit.settings[0].with), 1.12, 0.002);
  EXPECT_NEAR(std::exp(fit.settings[0].without), 1.0, 0.002);
}

TEST(FitRuns, NamesSizesByTheirThreshold) {
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 8; ++i) {
    const double noise = i % 2 == 0 ? 1.003 : 0.997;
    runs.push_back(Measured(8 << i, "bf16", (i >= 5 ? 1.2 : 1.0) * noise));
  }
  const RunFit fit = FitRuns(runs);
  ASSERT_FALSE(fit.settings.empty());
  EXPECT_EQ(fit.settings[0].setting, "gpus: 256 or more");
  EXPECT_EQ(fit.settings[0].runs, 3U);
}

// Two of eight runs are too few to name a setting.
TEST(FitRuns, AFewRunsProveNothing) {
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 8; ++i)
    runs.push_back(Measured(8 << i, i < 2 ? "fp8" : "bf16", i < 2 ? 1.3 : 1));
  for (const SettingResidual& setting : FitRuns(runs).settings) {
    EXPECT_NE(setting.setting, "precision: fp8");
  }
}

}  // namespace
}  // namespace stepcast::calibrate
