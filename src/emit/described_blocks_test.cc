#include "src/emit/described_blocks.h"

#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "src/emit/trainers.h"
#include "src/model/model.h"
#include "src/scenario/load.h"

namespace stepcast::emit {
namespace {

scenario::Scenario Of(const std::string& model) {
  constexpr const char* kScenario = R"(
stepcast: 1
cluster: {topology: topologies/dgx-h100.yaml, nodes: 32}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw, optimizer_implementation: fused, gradient_dtype: fp32, loss: fused}
data_parallel: {zero_stage: 1, framework: megatron}
)";
  static scenario::InputCache cache;  // files are read once
  auto loaded = scenario::LoadText(kScenario, "test", {"model=models/" + model + ".yaml"}, cache);
  EXPECT_TRUE(loaded.has_value()) << model;
  return *std::move(loaded);
}

tl::expected<GptBlocks, std::string> BlocksOf(const std::string& model) {
  return GptBlocksOf(std::get<model::Architecture>(Of(model).model->source));
}

TEST(DescribedBlocksTest, TheDeltaRuleAndDenseLayersBeforeMixtures) {
  const auto next = BlocksOf("qwen3-next-80b-a3b");
  ASSERT_TRUE(next.has_value()) << next.error();
  EXPECT_EQ(LinearAttentionFrequency(next->delta), "4");
  EXPECT_TRUE(next->shared_gate);
  EXPECT_EQ(next->plain.heads, 16);
  EXPECT_EQ(next->plain.experts.count, 512);
  EXPECT_EQ(next->plain.experts.leading_dense, 0);
  EXPECT_EQ(next->rule.value_heads, 32);

  const auto sparse = BlocksOf("glm-5");
  ASSERT_TRUE(sparse.has_value()) << sparse.error();
  EXPECT_TRUE(sparse->delta.empty());
  EXPECT_EQ(sparse->plain.indexer.top, 2048);
  EXPECT_EQ(sparse->plain.experts.leading_dense, 3);
  EXPECT_EQ(sparse->plain.feed_forward, 12288);
  EXPECT_EQ(sparse->plain.layers, 78);
}

// A table of positions belongs to the model, not to a mixer.
TEST(DescribedBlocksTest, LearnedPositionsOfTheModelAreKept) {
  using model::Architecture, model::Position;
  Architecture a{.layers = 2, .hidden = 64, .vocabulary = 100, .max_positions = 512};
  a.kinds = {Architecture{.heads = 4,
                          .kv_heads = 4,
                          .head_size = 16,
                          .feed_forward = 256,
                          .position = Position::kNone}};
  a.pattern = {0, 0};
  const auto without = GptBlocksOf(a);
  ASSERT_TRUE(without.has_value()) << without.error();
  EXPECT_EQ(without->plain.position, Position::kNone);
  a.position = Position::kLearned;
  const auto learned = GptBlocksOf(a);
  ASSERT_TRUE(learned.has_value()) << learned.error();
  EXPECT_EQ(learned->plain.position, Position::kLearned);
  EXPECT_EQ(learned->plain.max_positions, 512);
}

TEST(DescribedBlocksTest, FrequencyIsANumberOrAList) {
  EXPECT_EQ(LinearAttentionFrequency({true, true, false, true, true, false}), "3");
  EXPECT_EQ(LinearAttentionFrequency({true, true, false, true}), "3");
  EXPECT_EQ(LinearAttentionFrequency({false, true, true}), "[0,1,1]");
}

TEST(DescribedBlocksTest, PartsThatAreMissingAreNamed) {
  const auto refuses = [](const std::string& model, const std::string& part) {
    const auto blocks = BlocksOf(model);
    return !blocks && blocks.error().find(part) != std::string::npos;
  };
  EXPECT_TRUE(refuses("nemotron-3-nano-30b-a3b", "state_space"));
  EXPECT_TRUE(refuses("kimi-linear-48b-a3b", "decay"));
  EXPECT_TRUE(refuses("deepseek-v4-flash", "streams"));
  EXPECT_TRUE(refuses("minimax-m3", "index"));
}

TEST(DescribedBlocksTest, ArgumentsNameTheirVariant) {
  const auto has = [](const std::string& model, const std::string& argument) {
    const Target arguments = MegatronArguments(Of(model), {});
    EXPECT_TRUE(arguments.has_value()) << model << ": " << arguments.error();
    return arguments && arguments->find("--" + argument + "\n") != std::string::npos;
  };
  EXPECT_TRUE(has("qwen3-next-80b-a3b", "experimental-attention-variant gated_delta_net"));
  EXPECT_TRUE(has("qwen3-next-80b-a3b", "linear-attention-freq 4"));
  EXPECT_TRUE(has("qwen3-next-80b-a3b", "attention-output-gate"));
  EXPECT_TRUE(has("glm-5", "experimental-attention-variant dsa"));
  EXPECT_TRUE(has("glm-5", "dsa-indexer-topk 2048"));
  EXPECT_TRUE(has("glm-4.7-flash", "moe-layer-freq ([0]*1+[1]*46)"));
}

}  // namespace
}  // namespace stepcast::emit
