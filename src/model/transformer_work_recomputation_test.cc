#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

// Selective recomputation leaves 34 sbh and runs the core again.
TEST(RecomputedWorkTest, SelectiveDropsTheScores) {
  const std::int64_t s = 1024, h = 768, a = 12;
  const LayerWork block =
      BlockOf(Shipped("gpt2"), Options(1, s, Checkpointing::kSelective, Attention::kMath));
  EXPECT_EQ(Sum(block.Of(Lifetime::kSaved)), 34 * s * h);
  // The scores' 5 a s^2 and a second copy of the core's output.
  EXPECT_EQ(Sum(block.Of(Lifetime::kRecomputed)), 5 * a * s * s + 2 * s * h);
  EXPECT_EQ(ModelFlops(block.recompute), 4 * s * s * h);

  const LayerWork flash = BlockOf(Shipped("gpt2"), Options(1, s, Checkpointing::kSelective));
  EXPECT_EQ(Sum(flash.Of(Lifetime::kSaved)), 34 * s * h);
  ASSERT_EQ(flash.recompute.size(), 1U);
  EXPECT_EQ(flash.recompute[0].kernel.kind, KernelKind::kAttention);
}

WorkOptions Dropping(const RecomputedModules& modules, std::int64_t tokens) {
  WorkOptions options = Options(1, tokens, Checkpointing::kSelective);
  options.recomputed_modules = modules;
  return options;
}

// A feed-forward keeps its input and drops the 16 sbh inside; both of its products run again.
TEST(RecomputedWorkTest, SelectiveDropsTheFeedForward) {
  const std::int64_t s = 512, h = 768;
  const LayerWork none = BlockOf(Shipped("gpt2"), Options(1, s));
  const LayerWork block =
      BlockOf(Shipped("gpt2"), Dropping({.core_attn = false, .mlp = true, .layernorm = false}, s));
  EXPECT_EQ(Sum(none.Of(Lifetime::kSaved)) - Sum(block.Of(Lifetime::kSaved)), 16 * s * h);
  EXPECT_EQ(Sum(block.Of(Lifetime::kRecomputed)), 16 * s * h);
  EXPECT_EQ(ModelFlops(block.recompute), 16 * s * h * h);
  EXPECT_EQ(ModelFlops(block.backward), ModelFlops(none.backward));
}

// Over t ranks that divide sequences, it keeps only its part of the input, 2 sbh / t, and gathers
// the others again.
TEST(RecomputedWorkTest, ADividedFeedForwardKeepsItsPartOfTheInput) {
  const std::int64_t s = 512, h = 768, t = 2;
  const auto divided = [](WorkOptions options) {
    options.tensor = t;
    options.sequence_parallel = true;
    return BlockOf(Shipped("gpt2"), options);
  };
  const LayerWork none = divided(Options(1, s));
  const LayerWork block =
      divided(Dropping({.core_attn = false, .mlp = true, .layernorm = false}, s));
  EXPECT_EQ(Sum(none.Of(Lifetime::kSaved)) - Sum(block.Of(Lifetime::kSaved)),
            16 * s * h / t + 2 * s * h - 2 * s * h / t);
  EXPECT_EQ(Sum(block.Of(Lifetime::kRecomputed)), 16 * s * h / t + 2 * s * h);
}

// Norms drop their outputs, 2 sbh each, and run again. If the feed-forward is dropped too, its
// input is recomputed first.
TEST(RecomputedWorkTest, SelectiveDropsTheNormsOutputs) {
  const std::int64_t s = 512, h = 768;
  const LayerWork none = BlockOf(Shipped("gpt2"), Options(1, s));
  const LayerWork norms =
      BlockOf(Shipped("gpt2"), Dropping({.core_attn = false, .mlp = false, .layernorm = true}, s));
  EXPECT_EQ(Sum(none.Of(Lifetime::kSaved)) - Sum(norms.Of(Lifetime::kSaved)), 4 * s * h);
  EXPECT_EQ(Sum(norms.Of(Lifetime::kRecomputed)), 4 * s * h);
  EXPECT_EQ(norms.recompute.size(), 2U);
  const LayerWork both =
      BlockOf(Shipped("gpt2"), Dropping({.core_attn = false, .mlp = true, .layernorm = true}, s));
  EXPECT_EQ(Sum(none.Of(Lifetime::kSaved)) - Sum(both.Of(Lifetime::kSaved)), 20 * s * h);
  EXPECT_EQ(both.recompute.front().kernel.kind, KernelKind::kMemoryBound);
}

TEST(RecomputedWorkTest, FullKeepsTheBlocksInput) {
  for (const Architecture& a : {Shipped("gpt2"), Shipped("llama3.1-8b"), Shipped("mpt-7b")}) {
    const LayerWork full = BlockOf(a, Options(1, 512, Checkpointing::kFull));
    const LayerWork none = BlockOf(a, Options(1, 512));
    EXPECT_EQ(Sum(full.Of(Lifetime::kSaved)), 2 * 512 * a.hidden);
    EXPECT_EQ(Sum(full.Of(Lifetime::kSaved)) + Sum(full.Of(Lifetime::kRecomputed)),
              Sum(none.Of(Lifetime::kSaved)));
    EXPECT_EQ(ModelFlops(full.recompute), ModelFlops(none.forward));
    EXPECT_EQ(full.recompute.size(), none.forward.size());
    EXPECT_GE(full.backward_transient, none.backward_transient);
  }
}

// A block that is not the first of its checkpoint keeps nothing. Its input is a temporary in
// forward and is recomputed with the rest.
TEST(RecomputedWorkTest, ACheckpointsOtherBlocksKeepNothing) {
  WorkOptions options = Options(1, 512, Checkpointing::kFull);
  const Architecture a = Shipped("llama3.1-8b");
  const LayerWork first = BlockOf(a, options);
  options.blocks_per_checkpoint = 2;
  const std::vector<LayerWork> works = TransformerWork(a, options);
  ASSERT_EQ(works.size(), 4);
  const LayerWork& other = works[3];
  EXPECT_TRUE(other.continues_checkpoint);
  EXPECT_FALSE(works[1].continues_checkpoint);
  EXPECT_TRUE(other.Of(Lifetime::kSaved).empty());
  EXPECT_EQ(other.input, LayerWork::kNone);
  EXPECT_EQ(Sum(other.Of(Lifetime::kRecomputed)),
            Sum(first.Of(Lifetime::kRecomputed)) + 2 * 512 * a.hidden);
  EXPECT_EQ(ModelFlops(other.recompute), ModelFlops(other.forward));
  // At the height, in the feed-forward, the block's input is gone.
  EXPECT_EQ(other.forward_transient, first.forward_transient);
  EXPECT_EQ(other.backward_transient, first.backward_transient);
}

// PyTorch stops recomputing when the last tensor that backward needs exists: the input of a block's
// last matrix product. That product (8 of 24 h^2 for GPT, one of three of the SwiGLU) and its
// residual are left out. Recomputed kept values are unchanged.
TEST(RecomputedWorkTest, RecomputationStopsEarly) {
  for (const Architecture& a : {Shipped("llama3.1-8b"), Shipped("mpt-7b")}) {
    WorkOptions options = Options(1, 512, Checkpointing::kFull);
    const LayerWork whole = BlockOf(a, options);
    options.recompute_stops_early = true;
    const LayerWork early = BlockOf(a, options);
    EXPECT_EQ(early.recompute.size(), whole.recompute.size() - 2);
    EXPECT_EQ(ModelFlops(whole.recompute) - ModelFlops(early.recompute),
              2 * 512 * a.feed_forward * a.hidden);
    EXPECT_EQ(Sum(early.Of(Lifetime::kRecomputed)), Sum(whole.Of(Lifetime::kRecomputed)));
    EXPECT_EQ(Sum(early.Of(Lifetime::kSaved)), Sum(whole.Of(Lifetime::kSaved)));
  }
}

// torchtitan's policy on Llama: the products q, v, gate and down (first, third, fifth and seventh)
// are kept; k, o, up and everything else but the attention core run again.
TEST(RecomputedWorkTest, SelectiveOpKeepsEverySecondProduct) {
  const Architecture a = Shipped("llama3.1-8b");
  const std::int64_t t = 512, h = 4096, kv = 1024, f = 14336, heads = 32;
  WorkOptions options = Options(1, t, Checkpointing::kSelectiveOp);
  options.recompute_stops_early = true;
  const LayerWork block = BlockOf(a, options);
  // Input, q, v, gate and down products, the core's output and log-sum-exp.
  EXPECT_EQ(Sum(block.Of(Lifetime::kSaved)), t * (2 * (h + h + kv + f + h + h) + 4 * heads));
  EXPECT_EQ(ModelFlops(block.recompute), 2 * t * h * (kv + h + f));
  for (const Operation& op : block.recompute) {
    EXPECT_NE(op.kernel.kind, KernelKind::kAttention);
  }
}

TEST(RecomputedWorkTest, EmbeddingAndHeadAreNotRecomputed) {
  const auto none = TransformerWork(Shipped("gpt2"), Options(1, 512));
  const auto full = TransformerWork(Shipped("gpt2"), Options(1, 512, Checkpointing::kFull));
  for (const std::size_t layer : {kEmbedding, kHead}) {
    EXPECT_TRUE(full[layer].recompute.empty());
    EXPECT_EQ(Sum(full[layer].Of(Lifetime::kSaved)), Sum(none[layer].Of(Lifetime::kSaved)));
  }
}

}  // namespace
}  // namespace stepcast::model
