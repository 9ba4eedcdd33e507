// Kinds of runs that measure slower than their forecasts.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/forecast/corrections.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/llama3.1-8b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 2048, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

// A forecast of 2 s, known to 1 s, in which devices wait for half a second.
Forecast Widened(const std::vector<std::string>& set, double idle = 0.5) {
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(kScenario, "test", set, cache);
  EXPECT_TRUE(scenario.has_value());
  Forecast forecast;
  forecast.step_time = Milliseconds(2000);
  forecast.step_time_range = TimeRange{Milliseconds(1500), Milliseconds(2200)};
  forecast.time.idle = Picoseconds(static_cast<std::int64_t>(idle * 1e12));
  WidenByKnownGap(*scenario, forecast);
  return forecast;
}

TEST(KnownGaps, WidenUpwardsAndSayWhy) {
  EXPECT_FALSE(Widened({}).known_gap.has_value());
  const std::vector<std::string> tensor = {"parallelism.tensor=8",
                                           "parallelism.sequence_parallel=true"};
  const Forecast eager = Widened(tensor);
  ASSERT_TRUE(eager.known_gap.has_value());
  EXPECT_EQ(eager.step_time_range->low, Milliseconds(1500));
  EXPECT_NEAR(eager.step_time_range->high.seconds(), 2 * eager.known_gap->factor, 1e-9);
  std::vector<std::string> compiled = tensor;
  compiled.emplace_back("training.compile=true");
  EXPECT_FALSE(Widened(compiled).known_gap.has_value());
}

TEST(KnownGaps, OfMixturesDependOnTheHost) {
  const std::string mixture = "model=models/qwen3-30b-a3b.yaml";
  EXPECT_TRUE(Widened({mixture}).known_gap.has_value());
  const std::vector<std::string> megatron = {mixture, "data_parallel.framework=megatron",
                                             "data_parallel.zero_stage=1", "parallelism.expert=8"};
  EXPECT_TRUE(Widened(megatron).known_gap.has_value());
  EXPECT_FALSE(Widened(megatron, 0.3).known_gap.has_value());
}

// The largest ratios of measured to forecast step times are 1.17, and 1.37 for mixtures with the
// delta rule. The range without a gap ends at 1.1.
TEST(KnownGaps, OfRecurrentLayersInMegatron) {
  const auto reach = [](const std::string& model) {
    const Forecast forecast = Widened(
        {"model=models/" + model, "data_parallel.framework=megatron", "data_parallel.zero_stage=1"},
        0);
    return forecast.step_time_range->high.seconds() / forecast.step_time.seconds();
  };
  for (const char* const model :
       {"qwen3.5-27b.yaml", "nemotron-3-nano-30b-a3b.yaml", "deepseek-v4-flash.yaml"}) {
    EXPECT_NEAR(reach(model), 1.17, 0.001) << model;
  }
  EXPECT_NEAR(reach("llama3.1-8b.yaml"), 1.1, 0.001);
  EXPECT_NEAR(reach("qwen3.5-35b-a3b.yaml"), 1.37, 0.001);
}

// Learned runs already include the gap.
TEST(KnownGaps, LearnedRunsNarrowThem) {
  static scenario::InputCache cache;
  const auto scenario = scenario::LoadText(
      kScenario, "test", {"parallelism.tensor=8", "parallelism.sequence_parallel=true"}, cache);
  ASSERT_TRUE(scenario.has_value());
  Forecast forecast;
  forecast.step_time = Milliseconds(2000);
  forecast.step_time_range = TimeRange{Milliseconds(1900), Milliseconds(2100)};
  forecast.learned = RunCorrection{.factor = 1.3, .known = 1};
  WidenByKnownGap(*scenario, forecast);
  EXPECT_FALSE(forecast.known_gap.has_value());
}

}  // namespace
}  // namespace stepcast::forecast
