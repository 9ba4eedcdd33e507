#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/calibration/learned_runs.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

scenario::Scenario Load(const std::vector<std::string>& set = {}) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(kScenario, "test", set, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

// The scenario with one equal run, whose time was `ratio` of its forecast.
scenario::Scenario WithRun(scenario::Scenario scenario, double ratio) {
  auto profile = std::make_shared<calibration::Calibration>(*scenario.calibration);
  profile->runs = std::make_shared<const calibration::LearnedRuns>(
      std::vector<calibration::LearnedRun>{{SettingsOf(scenario), std::log(ratio), 1}});
  scenario.calibration = std::move(profile);
  return scenario;
}

TEST(Learned, SettingsAreThoseOfTheScenario) {
  using calibration::RunKind;
  using calibration::RunSize;
  const calibration::RunSettings settings = SettingsOf(Load());
  EXPECT_EQ(settings[RunSize::kParameters], 124'439'808);
  EXPECT_EQ(settings[RunSize::kSequenceLength], 1024);
  EXPECT_EQ(settings[RunSize::kGpus], 8);
  EXPECT_EQ(settings[RunSize::kMicroBatches], 2);
  EXPECT_EQ(settings[RunKind::kGpu], "h100-sxm");
  EXPECT_EQ(settings[RunKind::kFramework], "ddp");
  EXPECT_EQ(settings[RunKind::kZeroStage], "0");
  EXPECT_EQ(settings[RunKind::kPrecision], "bf16");
  // 8 cards of 400 Gbit/s for 8 GPUs of 700 W.
  EXPECT_EQ(settings[RunSize::kNetwork], 50'000);
  EXPECT_EQ(settings[RunSize::kPowerLimit], 700);
  EXPECT_EQ(settings[RunSize::kHostSpeed], 1000);
  EXPECT_EQ(settings[RunKind::kNorm], "fused");
  EXPECT_EQ(settings[RunKind::kHostWaits], "never");
  EXPECT_EQ(SettingsOf(Load({"software.torch=2.6"}))[RunKind::kTorch], "2.6");
}

// One run corrects 96.167 % of its logarithm (learned_runs_test.cc).
TEST(Learned, ARunCorrectsItsOwnForecast) {
  const scenario::Scenario plain = Load();
  const scenario::Scenario learned = WithRun(plain, 1.1);
  const Forecast before = Simulate(plain)->forecast;
  const Forecast after = Simulate(learned)->forecast;
  const double factor = std::exp(0.96167 * std::log(1.1));
  EXPECT_NEAR(after.step_time / before.step_time, factor, 1e-5);
  EXPECT_NEAR(LearnedFactor(learned), factor, 1e-5);
  EXPECT_EQ(LearnedFactor(plain), 1);
  // Simulated parts do not change; with the learned part they add up to the step.
  EXPECT_EQ(after.time.phase, before.time.phase);
  EXPECT_EQ(after.time.learned, after.step_time - before.step_time);
  EXPECT_NEAR(after.tokens_per_second * after.step_time.seconds(),
              before.tokens_per_second * before.step_time.seconds(), 1e-6);
  EXPECT_NEAR(after.mfu, before.mfu / factor, 1e-6);
  // Runs that repeat within 1 % make the range narrower than the profile's.
  const auto width = [](const Forecast& forecast) {
    return (forecast.step_time_range->high - forecast.step_time_range->low) / forecast.step_time;
  };
  EXPECT_LT(width(after), 0.5 * width(before));
  EXPECT_FALSE(before.learned.has_value());
}

TEST(Learned, TheForecasterSaysTheSame) {
  Forecaster forecaster;
  for (const double ratio : {0.9, 1.0, 1.2}) {
    const scenario::Scenario scenario = WithRun(Load(), ratio);
    const Forecast one = Simulate(scenario)->forecast;
    const Forecast other = *forecaster.Evaluate(scenario);
    EXPECT_EQ(one.step_time, other.step_time);
    EXPECT_EQ(one.tokens_per_second_per_gpu, other.tokens_per_second_per_gpu);
  }
}

// No measurement makes a step shorter than its products at the devices' peak.
TEST(Learned, NoStepIsShorterThanItsOperations) {
  const scenario::Scenario learned = WithRun(Load(), 0.01);
  const Forecast forecast = Simulate(learned)->forecast;
  EXPECT_EQ(forecast.step_time, forecast.time_at_peak);
  EXPECT_EQ(forecast.step_time_range->low, forecast.time_at_peak);
}

TEST(Learned, FarFromItsRunsAForecastStays) {
  const scenario::Scenario plain =
      Load({"training.sequence_length=32", "cluster.nodes=64", "training.precision=fp32",
            "training.compile=true", "training.micro_batch_size=64",
            "training.gradient_accumulation=512", "training.attention=math",
            "data_parallel={zero_stage: 3, framework: reference}"});
  scenario::Scenario learned = plain;
  learned.calibration = WithRun(Load(), 1.3).calibration;
  const double factor = LearnedFactor(learned);
  EXPECT_NEAR(factor, 1, 0.01);
}

}  // namespace
}  // namespace stepcast::forecast
