#include "src/model/architecture.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"

namespace stepcast::model {
namespace {

std::vector<std::string> Fields(const Architecture& architecture) {
  std::vector<std::string> fields;
  for (const ArchitectureFault& fault : Check(architecture)) {
    EXPECT_FALSE(fault.message.empty());
    fields.push_back(fault.field);
  }
  return fields;
}

using Names = std::vector<std::string>;

TEST(ArchitectureTest, PublishedModelsArePossible) {
  for (const Architecture& a : {Shipped("gpt2"),
                                Shipped("llama2-7b"),
                                Shipped("llama3.1-8b"),
                                Shipped("llama3.1-70b"),
                                Shipped("llama3.1-405b"),
                                Shipped("mistral-7b"),
                                Shipped("qwen2.5-7b"),
                                Shipped("mpt-7b"),
                                Shipped("nemotron4-15b"),
                                Shipped("bert-large"),
                                Shipped("mixtral-8x7b"),
                                Shipped("qwen3-8b"),
                                Shipped("qwen3-30b-a3b"),
                                Shipped("deepseek-v3"),
                                Shipped("deepseek-v2-lite"),
                                Shipped("moonlight-16b-a3b"),
                                Shipped("gpt-oss-20b"),
                                Shipped("gemma2-9b"),
                                Shipped("gemma3-27b"),
                                Shipped("phi4"),
                                Shipped("olmo2-7b"),
                                Shipped("glm-4.5"),
                                Shipped("glm-4.5-air"),
                                Shipped("llama4-scout"),
                                Shipped("llama4-maverick"),
                                Shipped("kimi-k2")}) {
    EXPECT_EQ(Fields(a), Names());
  }
}

TEST(ArchitectureTest, EncodersHaveAKeyForEachHeadAndSeeAll) {
  Architecture a = Shipped("bert-large");
  a.kv_heads = 4;
  a.attention_window = 128;
  EXPECT_EQ(Fields(a), (Names{"num_key_value_heads", "sliding_window"}));
  a = Shipped("bert-large");
  a.token_types = 0;
  a.next_sentence = false;
  EXPECT_EQ(Fields(a), Names());
  a.activator = Activator::kSwiGlu;
  EXPECT_EQ(Fields(a), Names{"activation"});
  a = Shipped("gpt2");
  a.token_types = 2;
  a.next_sentence = true;
  EXPECT_EQ(Fields(a), (Names{"type_vocab_size", "next_sentence"}));
  EXPECT_EQ(CheckLora(Shipped("bert-large")).front().message,
            "adapters of encoders are not modelled: the family is bert");
}

TEST(ArchitectureTest, EveryMissingDimensionIsNamed) {
  EXPECT_EQ(Fields(Architecture{}),
            (Names{"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                   "head_dim", "intermediate_size", "vocab_size"}));
}

TEST(ArchitectureTest, KeyValueHeadsDivideHeads) {
  Architecture a = Shipped("llama3.1-8b");
  a.kv_heads = 5;
  EXPECT_EQ(Fields(a), Names{"num_key_value_heads"});
}

TEST(ArchitectureTest, RotaryPositionsTurnPairs) {
  Architecture a = Shipped("llama3.1-8b");
  a.head_size = 127;
  EXPECT_EQ(Fields(a), Names{"head_dim"});
}

TEST(ArchitectureTest, LearnedPositionsNeedALength) {
  Architecture a = Shipped("gpt2");
  a.max_positions = 0;
  EXPECT_EQ(Fields(a), Names{"max_position_embeddings"});
  a = Shipped("mpt-7b");  // ALiBi has no table
  a.max_positions = 0;
  EXPECT_EQ(Fields(a), Names());
}

TEST(ArchitectureTest, FamiliesRefuseWhatTheirLayersLack) {
  Architecture a = Shipped("gpt2");
  a.position = Position::kAlibi;
  EXPECT_EQ(Fields(a), Names{"position"});

  a = Shipped("mpt-7b");
  a.activator = Activator::kSwiGlu;
  a.position = Position::kRotary;
  a.head_size = 64;
  EXPECT_EQ(Fields(a), (Names{"activation", "position", "head_dim"}));

  a = Shipped("llama2-7b");
  a.activator = Activator::kGelu;
  a.normalization = Normalization::kLayerNorm;
  EXPECT_EQ(Fields(a), (Names{"activation", "normalization"}));

  a = Shipped("llama2-7b");
  a.norm_bias = true;
  EXPECT_EQ(Fields(a), Names{"norm_bias"});
}

// Megatron-LM's GPT: rotary positions, a gate, RMS norms and grouped queries are options.
TEST(ArchitectureTest, Gpt2IsMegatronsGptWithItsOptions) {
  Architecture a = Shipped("gpt2");
  a.position = Position::kRotary;
  a.activator = Activator::kSwiGlu;
  a.normalization = Normalization::kRmsNorm;
  a.norm_bias = false;
  a.kv_heads = 4;
  a.head_size = 128;
  EXPECT_EQ(Fields(a), Names());
  EXPECT_FALSE(HasFusedAttention(a));
  EXPECT_TRUE(HasFusedProjections(a));
  EXPECT_TRUE(HasFusedGate(a));
  EXPECT_TRUE(HasFusedAttention(Shipped("gpt2")));
}

TEST(ArchitectureTest, SomeFamiliesHaveFeedForwardBesideAttention) {
  EXPECT_EQ(Fields(Shipped("gptj-6b")), Names());
  EXPECT_EQ(Fields(Shipped("pythia-6.9b")), Names());
  EXPECT_EQ(Fields(Shipped("falcon-7b")), Names());
  Architecture a = Shipped("falcon-7b");
  a.parallel_residual_norms = 2;  // Falcon-40B
  EXPECT_EQ(Fields(a), Names());
  a.parallel_residual_norms = 3;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Shipped("pythia-6.9b");
  a.parallel_residual_norms = 0;  // use_parallel_residual: false
  EXPECT_EQ(Fields(a), Names());
  a = Shipped("gptj-6b");
  a.parallel_residual_norms = 2;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Shipped("llama2-7b");
  a.parallel_residual_norms = 1;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Shipped("gptj-6b");
  a.tie_embeddings = true;
  EXPECT_EQ(Fields(a), Names{"lm_head_bias"});
}

TEST(ArchitectureTest, OnlyQwen2GatesItsSharedExperts) {
  EXPECT_EQ(Fields(Shipped("qwen1.5-moe-a2.7b")), Names());
  Architecture a = Shipped("qwen1.5-moe-a2.7b");
  a.experts.shared_feed_forward = 0;
  EXPECT_EQ(Fields(a), Names{"shared_expert_gate"});
  a = Shipped("mixtral-8x7b");
  a.experts.shared_gate = true;
  EXPECT_EQ(Fields(a), Names{"shared_expert_gate"});
}

TEST(ArchitectureTest, CountsStayInside64Bits) {
  Architecture a = Shipped("llama2-7b");
  a.hidden = kMostWidth;
  a.feed_forward = kMostWidth;  // 2^36 elements in one matrix
  const Names fields = Fields(a);
  EXPECT_NE(std::find(fields.begin(), fields.end(), "intermediate_size"), fields.end());
  a.hidden = kMostWidth + 1;
  EXPECT_EQ(Fields(a), Names{"hidden_size"});
}

TEST(ArchitectureTest, ExpertsHaveTheirRanges) {
  const auto fields = [](const Experts& experts) {
    Architecture a = Shipped("mixtral-8x7b");
    a.experts = experts;
    return Fields(a);
  };
  const Experts good = Shipped("mixtral-8x7b").experts;
  Experts e = good;
  e.per_token = 9;  // of 8
  e.feed_forward = 0;
  EXPECT_EQ(fields(e), (Names{"num_experts_per_tok", "moe_intermediate_size"}));
  e = good;
  e.count = -1;
  EXPECT_EQ(fields(e), Names{"num_experts"});
  e = good;
  e.shared_feed_forward = -1;
  e.every = 0;
  e.leading_dense = 33;  // of 32
  EXPECT_EQ(fields(e), (Names{"shared_expert_intermediate_size", "first_k_dense_replace",
                              "decoder_sparse_step"}));
  e = good;
  e.leading_dense = 32;
  EXPECT_EQ(fields(e), Names{"num_experts"});
  e = good;
  e.count = kMostExperts;
  e.feed_forward = kMostWidth;
  EXPECT_EQ(fields(e), Names{"num_experts"});
}

TEST(ArchitectureTest, GroupsDivideExperts) {
  const auto fields = [](std::int64_t groups, std::int64_t groups_per_token) {
    Architecture a = Shipped("mixtral-8x7b");
    a.experts.groups = groups;
    a.experts.groups_per_token = groups_per_token;
    return Fields(a);
  };
  EXPECT_EQ(fields(4, 1), Names());  // 2 of the 2 in one group
  EXPECT_EQ(fields(8, 2), Names());
  EXPECT_EQ(fields(8, 1), Names{"topk_group"});  // 1 expert, a token takes 2
  EXPECT_EQ(fields(3, 1), Names{"n_group"});
  EXPECT_EQ(fields(4, 5), Names{"topk_group"});
  EXPECT_EQ(fields(4, 0), Names{"topk_group"});
  EXPECT_EQ(fields(0, 1), Names{"n_group"});
}

TEST(ArchitectureTest, BlocksWithExpertsAreCountedFromTheFirst) {
  Architecture a = Shipped("mixtral-8x7b");
  a.experts.leading_dense = 3;
  EXPECT_FALSE(HasExperts(a, 2));
  EXPECT_TRUE(HasExperts(a, 3));
  a.experts.leading_dense = 0;
  a.experts.every = 2;
  EXPECT_FALSE(HasExperts(a, 0));
  EXPECT_TRUE(HasExperts(a, 1));
  EXPECT_FALSE(HasExperts(Shipped("llama2-7b"), 1));
}

TEST(ArchitectureTest, FamiliesHaveExpertsOrNone) {
  Architecture a = Shipped("mixtral-8x7b");
  a.experts = {};
  EXPECT_EQ(Fields(a), Names{"num_experts"});  // a Mistral
  a = Shipped("llama3.1-8b");
  a.experts = Shipped("mixtral-8x7b").experts;
  EXPECT_EQ(Fields(a), Names());
  a = Shipped("gemma2-9b");
  a.experts = Shipped("mixtral-8x7b").experts;
  EXPECT_EQ(Fields(a), Names());
  a = Shipped("gpt2");
  a.experts = Shipped("mixtral-8x7b").experts;
  EXPECT_EQ(Fields(a), Names{"num_experts"});
}

TEST(ArchitectureTest, OnlySomeFamiliesHaveNormsOfHeads) {
  Architecture a = Shipped("llama3.1-8b");
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names());
  a = Shipped("gpt2");
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names{"use_qk_norm"});
}

TEST(ArchitectureTest, LatentAttentionHasItsRanges) {
  Architecture a = Shipped("deepseek-v3");
  a.latent = {};
  EXPECT_EQ(Fields(a),
            (Names{"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}));
  a = Shipped("deepseek-v3");
  a.latent.rotary_head = 63;
  EXPECT_EQ(Fields(a), (Names{"qk_rope_head_dim", "head_dim"}));
  a = Shipped("deepseek-v3");
  a.kv_heads = 64;
  a.latent.query_rank = -1;
  EXPECT_EQ(Fields(a), Names{"q_lora_rank"});
  a.latent.query_rank = 0;
  EXPECT_EQ(Fields(a), Names{"num_key_value_heads"});
  a = Shipped("deepseek-v3");
  a.latent.plain_head = 127;
  a.head_size = 127 + 64;
  EXPECT_EQ(Fields(a), Names());
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names{"use_qk_norm"});
  a = Shipped("llama3.1-8b");
  a.latent = Shipped("deepseek-v3").latent;
  EXPECT_EQ(Fields(a), Names{"kv_lora_rank"});
  a = Shipped("deepseek-v3");
  a.lora = {.rank = 8, .targets = {.linear_qkv = true}};
  EXPECT_EQ(CheckLora(a).front().message,
            "adapters of latent attention's queries, keys and values are not modelled");
  a.lora.targets = {.projection = true};
  EXPECT_TRUE(CheckLora(a).empty());
}

TEST(ArchitectureTest, WindowsOfSomeBlocks) {
  EXPECT_FALSE(AttendsInFull(Shipped("gpt-oss-20b"), 0));
  EXPECT_TRUE(AttendsInFull(Shipped("gpt-oss-20b"), 1));
  EXPECT_FALSE(AttendsInFull(Shipped("mistral-7b"), 1));
  Architecture a = Shipped("gpt-oss-20b");
  a.attention_window = 0;
  EXPECT_FALSE(AttendsInFull(a, 1));
  EXPECT_EQ(Fields(a), Names{"sliding_window_pattern"});
  a = Shipped("gpt-oss-20b");
  a.full_attention_every = 1;
  EXPECT_EQ(Fields(a), Names{"sliding_window_pattern"});
  a = Shipped("gpt-oss-20b");
  a.experts = {};
  EXPECT_EQ(Fields(a), Names{"num_experts"});
}

TEST(ArchitectureTest, ChunksAndCapsAreOfDecoders) {
  Architecture a = Shipped("llama4-scout");
  a.attention_window = 4096;
  EXPECT_EQ(Fields(a), Names{"attention_chunk_size"});
  EXPECT_TRUE(AttendsInFull(Shipped("llama4-scout"), 3));
  EXPECT_FALSE(AttendsInFull(Shipped("llama4-scout"), 4));
  a = Shipped("bert-large");
  a.logit_cap = 30;
  EXPECT_EQ(Fields(a), Names{"final_logit_softcapping"});
  a = Shipped("phi4");
  a.attention_bias = true;
  EXPECT_EQ(Fields(a), Names{"attention_bias"});
  a = Shipped("phi4");
  a.lora = {.rank = 8, .targets = {.gate = true}};
  EXPECT_EQ(CheckLora(a).front().message,
            "one linear layer of the family phi3 computes gate and up");
  a.lora.targets = {.linear_qkv = true, .linear_fc1 = true};
  EXPECT_TRUE(CheckLora(a).empty());
}

TEST(ArchitectureTest, NamesAreThoseOfTheModelFile) {
  EXPECT_EQ(FamilyName(TypicalOf("gpt2")), "gpt2");
  EXPECT_STREQ(Name(Normalization::kRmsNorm), "rmsnorm");
  EXPECT_STREQ(Name(Activator::kSwiGlu), "swiglu");
  EXPECT_STREQ(Name(Activator::kSquaredRelu), "squared_relu");
  EXPECT_STREQ(Name(Position::kAlibi), "alibi");
}

TEST(ArchitectureTest, AdaptedLayersAreWrittenByTheirFirstNames) {
  EXPECT_EQ(Text(AdaptedLayers()), "");
  EXPECT_EQ(Text({.query = true, .value = true, .projection = true, .down = true}),
            "q_proj v_proj linear_proj linear_fc2");
}

TEST(ArchitectureTest, AdaptersStandBesideLayersThatExist) {
  const auto message = [](Architecture a, const Lora& lora) {
    a.lora = lora;
    const std::vector<ArchitectureFault> faults = CheckLora(a);
    return faults.empty() ? "" : faults.front().field + ": " + faults.front().message;
  };
  const Lora qkv{.rank = 8, .targets = {.linear_qkv = true}};
  EXPECT_EQ(message(Shipped("gpt2"), qkv), "");
  EXPECT_EQ(message(Shipped("llama2-7b"), {.rank = 8}),
            "targets: no linear layer has an adapter, so there is nothing to train");
  EXPECT_EQ(message(Shipped("gpt2"), {.rank = 8, .targets = {.query = true}}),
            "targets: one linear layer of the family gpt2 computes queries, keys and values");
  EXPECT_EQ(
      message(Shipped("llama2-7b"), {.rank = 8, .targets = {.linear_qkv = true, .key = true}}),
      "targets: linear_qkv already contains the adapter of queries, keys and values");
  EXPECT_EQ(message(Shipped("gpt2"), {.rank = 8, .targets = {.gate = true}}),
            "targets: this model's feed-forward has no gate: activation is gelu");
  EXPECT_EQ(message(Shipped("llama2-7b"), {.rank = 8, .targets = {.linear_fc1 = true, .up = true}}),
            "targets: linear_fc1 already contains the adapter of gate and up");
  EXPECT_EQ(message(Shipped("mixtral-8x7b"), qkv), "");
  EXPECT_EQ(message(Shipped("mixtral-8x7b"), {.rank = 8, .targets = {.query = true, .down = true}}),
            "targets: adapters of experts are not modelled: the model has 8 experts");
  // Keys of Llama 3.1 are 1024 wide.
  EXPECT_EQ(message(Shipped("llama3.1-8b"), {.rank = 1025, .targets = {.linear_qkv = true}}),
            "rank: rank must be at most 1024, the width of the narrowest linear layer, but is "
            "1025");
}

}  // namespace
}  // namespace stepcast::model
