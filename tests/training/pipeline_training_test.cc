#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/training/threaded_training.h"

// Plans with pipelines train what plain data parallelism trains, bit by bit: activations and their
// gradients carry values from stage to stage (program::EffectKind::kMix).
namespace stepcast::training {
namespace {

constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 20 us, backward: 40 us, activation: 64 B, output: 16 B}
    - {name: plain, parameters: [], forward: 20 us, backward: 40 us, activation: 64 B, output: 16 B}
    - {name: block, repeat: 2, parameters: [24, 7, 1], forward: 20 us, backward: 40 us,
       activation: 64 B, output: 16 B}
  optimizer_step: 20 us
)";

// The head reads the embedding's tensor: the first and the last stage add its gradients up.
constexpr const char* kTied = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 4
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
  max_position_embeddings: 8
)";

struct Case {
  const char* model = kLayers;
  int stages = 2, data = 1;
  std::string training;
  std::string data_parallel;
};

scenario::Scenario Loaded(const Case& one) {
  const std::string text =
      fmt::format(R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, optimizer: adamw, {}}}
parallelism: {{pipeline: {}}}
data_parallel: {{{}}}
)",
                  one.model, one.stages * one.data, one.training, one.stages, one.data_parallel);
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

void Check(const Case& one) {
  const scenario::Scenario scenario = Loaded(one);
  std::vector<program::Program> programs;
  for (int rank = 0; rank < one.stages * one.data; ++rank) {
    programs.push_back(lowering::LowerRank(scenario, {.rank = rank, .data_flow = true}));
    for (const program::Violation& violation : program::Validate(programs.back())) {
      FAIL() << violation.message;
    }
  }
  EXPECT_EQ(WrongAfterTraining(scenario, programs), "") << fmt::format(
      "{} stages, {} ranks each, {}, {}", one.stages, one.data, one.training, one.data_parallel);
}

TEST(PipelineTraining, IsThatOfPlainDataParallelism) {
  std::vector<std::string> plans = {
      "zero_stage: 0, framework: reference",
      "zero_stage: 0, framework: reference, bucket_size: 64 B",
      "zero_stage: 0, framework: reference, overlap: false",
      "zero_stage: 1, framework: reference",
      "zero_stage: 0, framework: megatron",
      "zero_stage: 1, framework: megatron",
      "zero_stage: 1, framework: megatron, overlap: false",
  };
  for (const int stages : {2, 4}) {
    for (const int data : {1, 2}) {
      for (const std::string& plan : plans) {
        for (const char* model : {kLayers, kTied}) {
          Check({model, stages, data, "precision: bf16, gradient_accumulation: 4", plan});
        }
        // A power of two for exact means; clipped by a norm over all stages.
        Check({kTied, stages, data,
               "precision: fp32, gradient_accumulation: 2, gradient_clipping: 1", plan});
      }
      for (const char* stage : {"2", "3"}) {
        Check({kLayers, stages, data, "precision: bf16, gradient_accumulation: 4",
               fmt::format("zero_stage: {}, framework: reference", stage)});
      }
    }
  }
}

TEST(PipelineTraining, WithWhatTheHostDoesOnTheWay) {
  Check({kTied, 2, 2,
         "precision: bf16, gradient_accumulation: 4, data_loading: {time: 10 us, workers: 1}, "
         "checkpoint_saving: {every: 10, bandwidth: 1 GB/s}",
         "zero_stage: 1, framework: megatron"});
}

}  // namespace
}  // namespace stepcast::training
