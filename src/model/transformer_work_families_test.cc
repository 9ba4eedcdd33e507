#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/layer_variant.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

// Differences of families' blocks from Llama's.
namespace stepcast::model {
namespace {

const std::vector<Architecture>& All() {
  static const std::vector<Architecture> all = {
      Shipped("llama3.1-8b"),  Shipped("qwen3-8b"),         Shipped("qwen3-30b-a3b"),
      Shipped("deepseek-v3"),  Shipped("deepseek-v2-lite"), Shipped("gpt-oss-20b"),
      Shipped("gemma2-9b"),    Shipped("gemma3-27b"),       Shipped("phi4"),
      Shipped("olmo2-7b"),     Shipped("glm-4.5"),          Shipped("glm-4.5-air"),
      Shipped("llama4-scout"), Shipped("llama4-maverick"),  Shipped("mixtral-8x7b")};
  return all;
}

// 2 FLOPs per matrix weight that a token uses, and 2 s^2 per query and value element for attention
// over a sequence of s tokens; backward has twice as many. Every token attends to the whole
// sequence, because s is shorter than any window.
TEST(FamiliesWorkTest, FlopsAreThoseOfTheWeights) {
  constexpr std::int64_t kSequences = 60, kLength = 64, kTokens = kSequences * kLength;
  for (const Architecture& a : All()) {
    const WorkOptions options =
        Options(kSequences, kLength, Checkpointing::kNone, Attention::kFlash3);
    const std::vector<LayerWork> works = TransformerWork(a, options);
    const std::vector<LayerVariant> variants = VariantsOf(a, options);
    const TransformerLayout layout = LayOut(a);
    for (std::size_t i = 1; i + 1 < layout.layers.size(); ++i) {
      const Layer& layer = layout.layers[i];
      std::int64_t weights = 0;
      for (const int t : layer.tensors) {
        const Tensor& tensor = layout.tensors[static_cast<std::size_t>(t)];
        const bool experts = tensor.group == ParameterGroup::kExperts;
        if (tensor.shape.size() < (experts ? 3U : 2U)) continue;
        weights +=
            experts ? tensor.elements / a.experts.count * a.experts.per_token : tensor.elements;
      }
      const std::int64_t attention = 2 * kTokens * kLength * a.heads * (a.head_size + ValueSize(a));
      const LayerWork& work = works[static_cast<std::size_t>(
          IndexOf(variants, VariantOf(a, options, layer, static_cast<std::int64_t>(i) - 1)))];
      EXPECT_EQ(ModelFlops(work.forward), 2 * kTokens * weights + attention)
          << FamilyName(a) << " " << layer.name;
      EXPECT_EQ(ModelFlops(work.backward), 2 * ModelFlops(work.forward))
          << FamilyName(a) << " " << layer.name;
    }
  }
}

TEST(FamiliesWorkTest, EveryWeightHasOneGradient) {
  for (const Architecture& a : All()) {
    for (const Attention attention : {Attention::kFlash3, Attention::kFlash, Attention::kMath}) {
      for (const Implementation norm : {Implementation::kFused, Implementation::kHuggingFace}) {
        WorkOptions options = Options(2, 64, Checkpointing::kNone, attention);
        options.norm = options.rotary = norm;
        const std::vector<LayerWork> works = TransformerWork(a, options);
        const std::vector<LayerVariant> variants = VariantsOf(a, options);
        const TransformerLayout layout = LayOut(a);
        for (const Layer& layer : layout.layers) {
          std::vector<int> gradients(layer.tensors.size(), 0);
          const int work = IndexOf(variants, VariantOf(a, options, layer, 0));
          for (const Operation& op : works[static_cast<std::size_t>(work)].backward) {
            for (const int position : op.gradients) ++gradients.at(position);
          }
          EXPECT_EQ(gradients, std::vector<int>(layer.tensors.size(), 1))
              << FamilyName(a) << " " << layer.name;
        }
      }
    }
  }
}

std::int64_t SavedBytesOfAToken(const Architecture& a, const WorkOptions& options) {
  return Sum(BlockOf(a, options).Of(Lifetime::kSaved)) /
         (options.micro_batch_size * options.sequence_length);
}

// Two more norms, after attention and feed-forward: each keeps h numbers of 16 bits and one number
// per token.
TEST(FamiliesWorkTest, GemmaNormalisesBehindBranches) {
  Architecture plain = Shipped("gemma2-9b");
  plain.family = FamilyCalled("llama");
  plain.scales_embeddings = false;
  plain.score_cap = plain.logit_cap = 0;
  const WorkOptions options = Options(1, 64);
  EXPECT_EQ(SavedBytesOfAToken(Shipped("gemma2-9b"), options) - SavedBytesOfAToken(plain, options),
            2 * (2 * 3584 + 4));
  // Scores between -50 and 50 keep a tanh of each, logits between -30 and 30, too.
  const WorkOptions math = Options(1, 64, Checkpointing::kNone, Attention::kMath);
  EXPECT_EQ(SavedBytesOfAToken(Shipped("gemma2-9b"), math) - SavedBytesOfAToken(plain, math),
            2 * (2 * 3584 + 4) + 2 * 16 * 64);
  const std::int64_t head =
      Sum(TransformerWork(Shipped("gemma2-9b"), options)[kHead].Of(Lifetime::kSaved)) -
      Sum(TransformerWork(plain, options)[kHead].Of(Lifetime::kSaved));
  EXPECT_EQ(head, 64 * 2 * 256000LL);
  EXPECT_NE(Find(TransformerWork(Shipped("gemma2-9b"), options)[kEmbedding], "embed_scale"),
            nullptr);
  EXPECT_EQ(Find(TransformerWork(plain, options)[kEmbedding], "embed_scale"), nullptr);
}

// Norms after the branches replace those before. The block's input feeds products and the sum.
// Query and key norms span all heads, with one number per token each.
TEST(FamiliesWorkTest, Olmo2NormalisesBehindAlone) {
  Architecture plain = Shipped("olmo2-7b");
  plain.family = FamilyCalled("llama");
  plain.qk_norm = false;
  const WorkOptions options = Options(1, 64);
  EXPECT_EQ(SavedBytesOfAToken(Shipped("olmo2-7b"), options) - SavedBytesOfAToken(plain, options),
            2 * (4096 + 4096) + 8);
  EXPECT_EQ(Find(BlockOf(Shipped("olmo2-7b"), options), "input_layernorm"), nullptr);
}

// One product for queries, keys and values and one for gate and up. The values are part of the
// former's output and keep all of it.
TEST(FamiliesWorkTest, Phi3HasTwoProductsBeforeTheCore) {
  Architecture plain = Shipped("phi4");
  plain.family = FamilyCalled("llama");
  const WorkOptions options = Options(1, 64);
  const LayerWork work = BlockOf(Shipped("phi4"), options);
  EXPECT_EQ(Find(work, "self_attn.qkv_proj")->n, 5120 + 2 * 1280);
  EXPECT_EQ(Find(work, "mlp.gate_up_proj")->n, 2 * 17920);
  EXPECT_EQ(SavedBytesOfAToken(Shipped("phi4"), options) - SavedBytesOfAToken(plain, options),
            2 * (5120 + 1280));
  // A framework that always makes one product of them has no such difference.
  WorkOptions fused = options;
  fused.fuses_products = true;
  EXPECT_EQ(SavedBytesOfAToken(Shipped("phi4"), fused), SavedBytesOfAToken(plain, fused));
  EXPECT_EQ(BlockOf(Shipped("phi4"), fused).forward.size(), BlockOf(plain, fused).forward.size());
}

// Three of four blocks attend within chunks of 16 of 64 tokens: four times 16 x 16 pairs.
TEST(FamiliesWorkTest, Llama4AttendsWithinChunks) {
  Architecture a = Shipped("llama4-scout");
  a.attention_chunk = 16;
  const WorkOptions options = Options(1, 64, Checkpointing::kNone, Attention::kFlash3);
  const std::vector<LayerWork> works = TransformerWork(a, options);
  const std::vector<LayerVariant> variants = VariantsOf(a, options);
  ASSERT_EQ(works.size(), 4U);
  EXPECT_TRUE(variants[3].full_attention);
  const std::int64_t width = 40 * 128;
  EXPECT_EQ(Find(works[kBlock], "self_attn.core")->flops, 2 * width * 4 * 16 * 16);
  EXPECT_EQ(Find(works[3], "self_attn.core")->flops, 2 * width * 64 * 64);
  // The others turn queries and keys and normalise them, with no weights; these do neither.
  EXPECT_NE(Find(works[kBlock], "self_attn.rotary_query"), nullptr);
  EXPECT_NE(Find(works[kBlock], "self_attn.q_norm"), nullptr);
  EXPECT_EQ(Find(works[3], "self_attn.rotary_query"), nullptr);
  EXPECT_EQ(Find(works[3], "self_attn.q_norm"), nullptr);
}

}  // namespace
}  // namespace stepcast::model
