#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"
#include "src/validate/training_check.h"
#include "tests/training/threaded_training.h"

// A model with one expert, which every token uses, trains like the dense model, bit by bit.
namespace stepcast::training {
namespace {

struct Case {
  const char* parallelism;
  int ranks;
  const char* data_parallel;
};

// A block of Qwen3, which registers its experts before their router: up to there both models have
// the same elements in the same order.
scenario::Scenario Loaded(const Case& one, const char* experts) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {{kind: transformer, family: qwen3, num_hidden_layers: 1, hidden_size: 16,
         num_attention_heads: 4, intermediate_size: 12, vocab_size: 12{}}}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 32, micro_batch_size: 1, optimizer: adamw, precision: bf16,
            gradient_accumulation: 2}}
parallelism: {{{}}}
data_parallel: {{{}}}
)",
      experts, one.ranks, one.parallelism, one.data_parallel);
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

std::int64_t ElementsBefore(const scenario::Scenario& scenario, const std::string& name) {
  std::int64_t elements = 0;
  for (const model::Tensor& tensor : scenario.model->tensors) {
    if (tensor.name.find(name) != std::string::npos) break;
    elements += tensor.elements;
  }
  return elements;
}

TEST(ExpertTraining, AMixtureOfOneExpertTrainsAsTheDenseModel) {
  constexpr int kSteps = 3;
  constexpr std::uint64_t kSeed = 5;
  for (const Case& one : {Case{"context: 1", 1, "zero_stage: 0, framework: megatron"},
                          Case{"context: 1", 4, "zero_stage: 1, framework: megatron"},
                          Case{"context: 2", 4, "zero_stage: 1, framework: megatron"},
                          Case{"context: 2", 4, "zero_stage: 3, framework: fsdp2"},
                          Case{"context: 1", 4, "zero_stage: 1, framework: deepspeed"},
                          Case{"context: 1", 4, "zero_stage: 2, framework: deepspeed"}}) {
    const scenario::Scenario dense = Loaded(one, "");
    const scenario::Scenario mixture =
        Loaded(one, ", num_experts: 1, num_experts_per_tok: 1, moe_intermediate_size: 12");
    const auto trained = [](const scenario::Scenario& scenario) {
      return validate::TrainPlainly(scenario, validate::Gradients::kSmallIntegers, kSteps, kSeed);
    };
    const validate::Weights own = trained(mixture), other = trained(dense);
    const std::int64_t same = ElementsBefore(mixture, "mlp.gate.weight");
    ASSERT_EQ(same, ElementsBefore(dense, "input_layernorm"));
    ASSERT_GT(same, 0);
    for (std::int64_t e = 0; e < same; ++e) {
      const auto at = static_cast<std::size_t>(e);
      ASSERT_EQ(own.masters[at], other.masters[at]) << one.data_parallel << ", element " << e;
    }
    // The ranks' programs train like the plain loop.
    std::vector<program::Program> programs;
    for (int rank = 0; rank < one.ranks; ++rank) {
      programs.push_back(lowering::LowerRank(mixture, {.rank = rank, .data_flow = true}));
    }
    EXPECT_EQ(WrongAfterTraining(mixture, programs), "") << one.data_parallel;
  }
}

}  // namespace
}  // namespace stepcast::training
