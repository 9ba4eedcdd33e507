#include "src/model/latent_attention_operators.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/collective_kind.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"

namespace stepcast::model {
namespace {

// DeepSeek-V3's attention with a dense feed-forward layer: h = 7168, a = 128, f = 18432.
constexpr std::int64_t kHidden = 7168, kHeads = 128, kWidth = 18432;

Architecture Dense() {
  Architecture a = Shipped("deepseek-v3");
  a.experts = {};
  return a;
}

WorkOptions Native(std::int64_t sequences, std::int64_t tokens) {
  return Options(sequences, tokens, Checkpointing::kNone, Attention::kFlash3);
}

std::int64_t SavedBytesOfAToken(const Architecture& a, const WorkOptions& options) {
  const std::int64_t tokens = options.micro_batch_size * options.sequence_length / options.tensor;
  return Sum(BlockOf(a, options).Of(Lifetime::kSaved)) / tokens;
}

// Two residuals, two norms' outputs, and four values of the feed-forward. The vectors, their norms,
// and the shared key part. Queries, keys, values, attention's output and its log-sum-exp. One
// number for each of four norms.
TEST(LatentAttentionOperatorsTest, KeepsTheVectorsAndTheHeads) {
  const std::int64_t others = 2 * (4 * kHidden + 4 * kWidth) + 8;
  const std::int64_t vectors = 2 * (2 * 1536 + 2 * 512 + 64) + 8;
  const std::int64_t heads = kHeads * (2 * (192 + 192 + 128 + 128) + 4);
  EXPECT_EQ(SavedBytesOfAToken(Dense(), Native(2, 64)), others + vectors + heads);
  // Made of the input, queries have no vector.
  Architecture a = Dense();
  a.latent.query_rank = 0;
  EXPECT_EQ(SavedBytesOfAToken(a, Native(2, 64)), others + vectors - 2 * 2 * 1536 - 4 + heads);
}

// Operation by operation, keys and values are one tensor, which is kept for the values.
TEST(LatentAttentionOperatorsTest, UnfusedKeysStayWithTheValues) {
  WorkOptions options = Native(2, 64);
  options.rotary = Implementation::kHuggingFace;
  EXPECT_EQ(SavedBytesOfAToken(Dense(), options) - SavedBytesOfAToken(Dense(), Native(2, 64)),
            2 * kHeads * 128);
  const LayerWork work = BlockOf(Dense(), options);
  const Kernel* join = Find(work, "self_attn.core.join_key");
  ASSERT_NE(join, nullptr);
  EXPECT_EQ(join->read, Bytes(2 * 128 * (kHeads * 128 + 64)));
  EXPECT_EQ(join->written, Bytes(2 * 128 * kHeads * 192));
  // The gradient of the part that heads share is summed over heads.
  EXPECT_EQ(Find(work, "self_attn.core.join_key.dgrad")->written, Bytes(2 * 128 * 64));
}

// FlashAttention-2 pads values to 192 and outputs as much; both are kept, and the cropped output
// too.
TEST(LatentAttentionOperatorsTest, ValuesAreFilledUpForTheSecondGeneration) {
  const WorkOptions options = Options(2, 64);
  EXPECT_EQ(SavedBytesOfAToken(Dense(), options) - SavedBytesOfAToken(Dense(), Native(2, 64)),
            2 * kHeads * (64 + 192));
  const LayerWork work = BlockOf(Dense(), options);
  EXPECT_EQ(Find(work, "self_attn.core")->k, 192);
  EXPECT_EQ(Find(work, "self_attn.core.fill_value")->written, Bytes(2 * 128 * kHeads * 192));
  EXPECT_EQ(Find(BlockOf(Dense(), Native(2, 64)), "self_attn.core")->k, 160);
}

// 2 FLOPs a weight and token, and for a sequence of s tokens the scores and their product with the
// values: 2 s^2 (192 + 128) a, without padding of values. Backward has twice as many.
TEST(LatentAttentionOperatorsTest, Flops) {
  const std::int64_t weights = kHidden * 1536 + 1536 * kHeads * 192 + kHidden * 576 +
                               512 * kHeads * 256 + kHeads * 128 * kHidden + 3 * kHidden * kWidth;
  const std::int64_t attention = 2 * 64 * 64 * kHeads * (192 + 128);
  for (const Attention attention_of : {Attention::kFlash, Attention::kFlash3, Attention::kMath}) {
    for (const Implementation rotary : {Implementation::kFused, Implementation::kHuggingFace}) {
      WorkOptions options = Native(2, 64);
      options.attention = attention_of;
      options.rotary = rotary;
      const LayerWork work = BlockOf(Dense(), options);
      const std::int64_t forward = 2 * 128 * weights + 2 * attention;
      EXPECT_EQ(ModelFlops(work.forward), forward);
      EXPECT_EQ(ModelFlops(work.backward), 2 * forward);
    }
  }
  // The core executes half of the pairs, and in backward 3 products of 192 and 2 of 128.
  const LayerWork work = BlockOf(Dense(), Native(1, 64));
  EXPECT_EQ(Find(work, "self_attn.core")->flops, attention / 2);
  EXPECT_EQ(Find(work, "self_attn.core.dgrad")->flops, 64 * 64 * kHeads * (3 * 192 + 2 * 128));
}

// q_a, its norm, q_b, kv_a, its norm, kv_b, o; gate, up, down; two norms.
TEST(LatentAttentionOperatorsTest, EveryWeightHasOneGradient) {
  for (const Implementation rotary : {Implementation::kFused, Implementation::kHuggingFace}) {
    for (const std::int64_t tensor : {1, 4}) {
      WorkOptions options = Native(2, 64);
      options.rotary = rotary;
      options.tensor = tensor;
      options.sequence_parallel = tensor > 1;
      std::vector<int> gradients(12, 0);
      for (const Operation& operation : BlockOf(Dense(), options).backward) {
        for (const int position : operation.gradients) ++gradients.at(position);
      }
      EXPECT_EQ(gradients, std::vector<int>(12, 1));
    }
  }
}

std::vector<std::string> Collectives(const std::vector<Operation>& operations) {
  std::vector<std::string> found;
  for (const Operation& operation : operations) {
    if (!operation.group) continue;
    found.push_back(std::string(Name(operation.group->collective)) + " " +
                    std::to_string(operation.group->bytes.count()));
  }
  return found;
}

// A rank computes the vectors of its tokens; both are gathered, and so is the shared key part.
// After the attention and around the feed-forward layer nothing changes.
TEST(LatentAttentionOperatorsTest, VectorsAreGatheredWithSequenceParallelism) {
  WorkOptions options = Native(1, 64);
  options.tensor = 4;
  options.sequence_parallel = true;
  options.regathers = true;
  const LayerWork work = BlockOf(Dense(), options);
  const auto bytes = [](std::int64_t width) { return std::to_string(2 * 64 * width); };
  const std::string gather = std::string(Name(CollectiveKind::kAllGather)) + " ";
  const std::string scatter = std::string(Name(CollectiveKind::kReduceScatter)) + " ";
  EXPECT_EQ(Collectives(work.forward),
            (std::vector<std::string>{gather + bytes(1536), gather + bytes(512), gather + bytes(64),
                                      scatter + bytes(kHidden), gather + bytes(kHidden),
                                      scatter + bytes(kHidden)}));
  // Products down are of 16 tokens and whole, products up of all tokens and a quarter of the heads.
  EXPECT_EQ(Find(work, "self_attn.q_a_proj")->m, 16);
  EXPECT_EQ(Find(work, "self_attn.q_a_proj")->n, 1536);
  EXPECT_EQ(Find(work, "self_attn.q_b_proj")->m, 64);
  EXPECT_EQ(Find(work, "self_attn.q_b_proj")->n, kHeads * 192 / 4);
  // Each vector is gathered again for the gradient of the weights that project up from it. Its own
  // gradient is summed over the ranks, as is that of the part that keys share.
  const std::vector<std::string> backward = Collectives(work.backward);
  const auto count = [&](const std::string& what) {
    return std::count(backward.begin(), backward.end(), what);
  };
  EXPECT_EQ(count(gather + bytes(1536)), 1);
  EXPECT_EQ(count(scatter + bytes(1536)), 1);
  EXPECT_EQ(count(gather + bytes(512)), 1);
  EXPECT_EQ(count(scatter + bytes(512)), 1);
  EXPECT_EQ(count(scatter + bytes(64)), 1);
}

// If parts are summed within the layer, so are the gradients of the down-projections.
TEST(LatentAttentionOperatorsTest, PartsOfGradientsAreAddedUp) {
  WorkOptions options = Native(1, 64);
  options.tensor = 4;
  options.sequence_parallel = true;
  options.adds_up_parts = true;
  const LayerWork work = BlockOf(Dense(), options);
  const std::vector<std::string> backward = Collectives(work.backward);
  for (const std::int64_t elements : {std::int64_t{7168 * 1536}, std::int64_t{7168 * 576}}) {
    const std::string sum =
        std::string(Name(CollectiveKind::kAllReduce)) + " " + std::to_string(2 * elements);
    EXPECT_EQ(std::count(backward.begin(), backward.end(), sum), 1) << sum;
  }
}

// Without sequence parallelism every rank has all tokens, and the gradients of the vectors are
// summed.
TEST(LatentAttentionOperatorsTest, TensorParallelismAlone) {
  WorkOptions options = Native(1, 64);
  options.tensor = 4;
  const LayerWork work = BlockOf(Dense(), options);
  const std::string sum = std::string(Name(CollectiveKind::kAllReduce)) + " ";
  EXPECT_EQ(Collectives(work.forward).size(), 2U);
  const std::vector<std::string> backward = Collectives(work.backward);
  for (const std::int64_t width : {1536, 512, 64}) {
    EXPECT_EQ(std::count(backward.begin(), backward.end(), sum + std::to_string(2 * 64 * width)),
              1);
  }
}

// The up-projections are dropped with their queries, keys and values, and recomputed: the products
// and the rotations, but no attention core.
TEST(LatentAttentionOperatorsTest, UpProjectionsAreRecomputed) {
  for (const Implementation rotary : {Implementation::kFused, Implementation::kHuggingFace}) {
    WorkOptions options = Native(1, 64);
    options.rotary = rotary;
    const LayerWork kept = BlockOf(Dense(), options);
    options.checkpointing = Checkpointing::kSelective;
    options.recomputed_modules = {.core_attn = false, .mla_up_proj = true};
    const LayerWork dropped = BlockOf(Dense(), options);
    const std::int64_t keys = rotary == Implementation::kFused ? 0 : 128;  // in the values' tensor
    const std::int64_t heads = 64 * 2 * kHeads * (192 + 192 + 128 + keys);
    EXPECT_EQ(Sum(kept.Of(Lifetime::kSaved)) - Sum(dropped.Of(Lifetime::kSaved)), heads);
    EXPECT_EQ(Sum(dropped.Of(Lifetime::kRecomputed)), heads);
    EXPECT_EQ(ModelFlops(dropped.recompute), 2 * 64 * kHeads * (1536 * 192 + 512 * 256));
  }
}

}  // namespace
}  // namespace stepcast::model
