#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/gradients.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

// Sizes of permanent and of temporary dummy gradients, in BF16 elements.
struct Dummies {
  std::vector<std::int64_t> kept, of_output_layer;
};

// Two blocks of width 64 over a vocabulary of 128 words.
Dummies Of(const std::string& training, const std::string& data_parallel = "", bool tied = false) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: transformer, name: small, family: llama, hidden_size: 64, num_hidden_layers: 2,
         num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 192, vocab_size: 128,
         tie_word_embeddings: {}}}
cluster: {{topology: {{kind: flat, devices: 1, gpu: h100-sxm}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
            optimizer: adamw, {}}}
data_parallel: {{zero_stage: 0, framework: megatron, {}}}
)",
                                       tied, training, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  const program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty());
  Dummies dummies;
  for (const program::Buffer& buffer : program.buffers) {
    const std::string name = program.NameOf(buffer);
    const std::int64_t elements = buffer.size.count() / 2;
    if (name == "dummy gradient") dummies.kept.push_back(elements);
    if (name.ends_with(".dummy gradient")) dummies.of_output_layer.push_back(elements);
  }
  std::sort(dummies.kept.begin(), dummies.kept.end());
  return dummies;
}

// The output projection 64 x 64; queries, keys and values of 64 + 2 x 32; the feed-forward's second
// product 192 x 64, and its first, of gate and up together, 2 x 192 x 64: one each for both blocks.
TEST(DummyGradients, TransformerEngineKeepsOneForEachShape) {
  const Dummies dummies = Of("norm: transformer_engine");
  EXPECT_EQ(dummies.kept, (std::vector<std::int64_t>{64 * 64, 128 * 64, 192 * 64, 2 * 192 * 64}));
  EXPECT_EQ(dummies.of_output_layer, (std::vector<std::int64_t>{128 * 64}));
}

// The head and the embedding give it gradients. The head comes first, and autograd keeps its dummy
// until the embedding has its gradient.
TEST(DummyGradients, OneOfTheOutputLayerWhereTheEmbeddingIsTiedToIt) {
  const Dummies dummies = Of("norm: transformer_engine", "", true);
  EXPECT_EQ(dummies.of_output_layer, (std::vector<std::int64_t>{128 * 64}));
}

TEST(DummyGradients, NothingWithoutItsLayersOrWithoutFusion) {
  for (const Dummies& dummies :
       {Of("norm: apex"), Of("norm: transformer_engine", "gradient_accumulation_fusion: false")}) {
    EXPECT_TRUE(dummies.kept.empty());
    EXPECT_TRUE(dummies.of_output_layer.empty());
  }
}

}  // namespace
}  // namespace stepcast::lowering
