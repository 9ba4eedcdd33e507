// GPUs with few or no measurements: all can be forecast, and steps reported by others are within
// the stated range.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"
#include "src/scenario/source_names.h"

namespace stepcast {
namespace {

constexpr const char* kFlat = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: {kind: flat, devices: 2, gpu: h100-sxm,
                     link: {latency: 5 us, bandwidth: 25 GB/s}}}
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 1, precision: fp16,
           parameter_dtype: fp32,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

Result<scenario::Scenario> Load(const std::string& text, const std::vector<std::string>& set) {
  static auto& cache = *new scenario::InputCache();
  return scenario::LoadText(text, "test", set, cache);
}

forecast::Forecast ForecastOf(const Result<scenario::Scenario>& scenario) {
  auto run = forecast::Simulate(*scenario);
  EXPECT_TRUE(run.has_value());
  return std::move(run->forecast);
}

TEST(StandIn, EveryGpuIsForecast) {
  for (const std::string& gpu : scenario::NamesIn("topologies/gpus")) {
    if (gpu == "host-cpu") continue;
    const auto scenario = Load(kFlat, {"cluster.topology.gpu=" + gpu});
    ASSERT_TRUE(scenario.has_value()) << gpu << "\n" << Format(scenario.error());
    const forecast::Forecast forecast = ForecastOf(scenario);
    ASSERT_TRUE(forecast.step_time_range.has_value()) << gpu;
    EXPECT_GT(forecast.step_time, Time()) << gpu;
  }
}

// An H20 is an H100 with slower tensor cores. Named or not, the H100's profile stands in, with a
// warning, and the range is about twice as wide relative to the step.
TEST(StandIn, IsSaidAndWidensTheRange) {
  const auto of = [](const std::vector<std::string>& set) { return Load(kFlat, set); };
  const auto h100 = of({});
  const auto h20 = of({"cluster.topology.gpu=h20"});
  const auto named = of({"cluster.topology.gpu=h20", "calibration=calibration/h100-sxm.yaml"});
  ASSERT_TRUE(h100.has_value() && h20.has_value() && named.has_value());
  EXPECT_EQ(
      h20->warnings,
      std::vector<std::string>{
          "there are no measurements for h20. The forecast uses the profile 'h100-sxm', of a GPU "
          "with the same compute capability, and doubles the range of the step time"});
  EXPECT_EQ(named->warnings, h20->warnings);
  EXPECT_EQ(ForecastOf(named).step_time, ForecastOf(h20).step_time);
  const auto width = [](const forecast::Forecast& forecast) {
    return (forecast.step_time_range->high - forecast.step_time_range->low).seconds() /
           forecast.step_time.seconds();
  };
  // The variation of devices is equally known, and parts have their own residuals.
  const double wider = width(ForecastOf(h20)) / width(ForecastOf(h100));
  EXPECT_GT(wider, 1.6);
  EXPECT_LE(wider, 2);
}

struct Row {
  const char* name;
  double seconds;  // measured
  std::vector<std::string> set;
};

void ExpectInRange(const std::string& text, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto scenario = Load(text, row.set);
    ASSERT_TRUE(scenario.has_value()) << row.name << "\n" << Format(scenario.error());
    const forecast::Forecast forecast = ForecastOf(scenario);
    ASSERT_TRUE(forecast.step_time_range.has_value()) << row.name;
    EXPECT_LE(forecast.step_time_range->low.seconds(), row.seconds) << row.name;
    EXPECT_GE(forecast.step_time_range->high.seconds(), row.seconds) << row.name;
  }
}

// ROCm/TransformerEngine issues 79 and 78: FSDP under torch.compile, accumulating 8 steps. The
// first has 410.42 Tflop/s per GPU at 6 flops for each of 8.03e9 parameters and 12 x 32 x 4096 x
// 4096 of attention, 54.6e9 per token. That is 7,513 tokens/s, and 17.4 s for 8 x 4 x 4,096 tokens;
// the profile is fitted to this one. The second has 491.22 / 0.94 = 522.6 Tflop/s at 34.8e9 per
// token (5.52e9 parameters, 4 blocks of 8,192): 15,030 tokens/s, and 26.2 s for 8 x 12 x 4,096
// tokens.
TEST(StandIn, StepsOfMi300xAreInRange) {
  ExpectInRange(R"(
stepcast: 1
model: models/llama3.1-8b.yaml
cluster: {topology: topologies/mi300x-8x400g.yaml, nodes: 1}
software: {torch: "2.6"}
training: {sequence_length: 4096, micro_batch_size: 4, gradient_accumulation: 8, precision: bf16,
           parameter_dtype: fp32, optimizer: adamw, optimizer_implementation: fused, compile: true}
data_parallel: {zero_stage: 3, framework: fsdp1}
)",
                {{"Llama 3 8B", 17.4, {}},
                 {"4 blocks of Llama 3 70B",
                  26.2,
                  {"training.micro_batch_size=12",
                   "model={kind: transformer, family: llama, hidden_size: 8192, "
                   "num_hidden_layers: 4, num_attention_heads: 64, num_key_value_heads: 8, "
                   "intermediate_size: 28672, vocab_size: 128256, tie_word_embeddings: false}"}}});
}

// swiss-ai/Megatron-LM pull requests 29 and 10, on Alps, with 2,097,152 tokens per step. Llama 3 8B
// on 16 and 32 nodes of 4 GH200 has 430 and 413 Tflop/s per GPU, and Llama 3.2 3B (untied) on 1 and
// 8 nodes 505 and 493. Megatron-LM counts 57.9e9 and 27.7e9 flops per token at 8,192 tokens per
// sequence, with full attention and the output layer: 7,427, 7,133, 18,230 and 17,800 tokens/s.
TEST(StandIn, StepsOfGh200AreInRange) {
  const std::string small =
      "model={kind: transformer, family: llama, hidden_size: 3072, num_hidden_layers: 28, "
      "num_attention_heads: 24, num_key_value_heads: 8, intermediate_size: 8192, "
      "vocab_size: 128256, tie_word_embeddings: false}";
  constexpr double kTokens = 2'097'152;
  ExpectInRange(
      R"(
stepcast: 1
model: models/llama3.1-8b.yaml
cluster: {topology: topologies/alps-gh200.yaml, nodes: 16}
software: {torch: "2.6"}
training: {sequence_length: 8192, micro_batch_size: 1, global_batch_size: 256, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 1, framework: megatron}
)",
      {{"8B on 64", kTokens / 64 / 7'427, {}},
       {"8B on 128", kTokens / 128 / 7'133, {"cluster.nodes=32"}},
       {"3B on 4", kTokens / 4 / 18'230, {small, "cluster.nodes=1"}},
       {"3B on 32",
        kTokens / 32 / 17'800,
        {small, "cluster.nodes=8", "training.micro_batch_size=2"}}});
}

}  // namespace
}  // namespace stepcast
