#include "src/model/architecture.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_architectures.h"

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
  for (const Architecture& a :
       {Gpt2Small(),    Llama2With7B(), Llama31With8B(), Llama31With70B(), Llama31With405B(),
        Mistral7B(),    Qwen2With7B(),  Mpt7B(),         Nemotron15B(),    BertLarge(),
        Mixtral8x7B(),  Qwen3With8B(),  Qwen3With30B(),  DeepseekV3(),     DeepseekV2Lite(),
        Moonlight16B(), GptOss20B(),    Gemma2With9B(),  Gemma3With27B(),  Phi4(),
        Olmo2With7B(),  Glm45(),        Glm45Air(),      Llama4Scout(),    Llama4Maverick(),
        KimiK2()}) {
    EXPECT_EQ(Fields(a), Names());
  }
}

TEST(ArchitectureTest, EncodersHaveAKeyForEachHeadAndSeeAll) {
  Architecture a = BertLarge();
  a.kv_heads = 4;
  a.attention_window = 128;
  EXPECT_EQ(Fields(a), (Names{"num_key_value_heads", "sliding_window"}));
  a = BertLarge();
  a.token_types = 0;
  a.next_sentence = false;
  EXPECT_EQ(Fields(a), Names());
  a.activator = Activator::kSwiGlu;
  EXPECT_EQ(Fields(a), Names{"activation"});
  a = Gpt2Small();
  a.token_types = 2;
  a.next_sentence = true;
  EXPECT_EQ(Fields(a), (Names{"type_vocab_size", "next_sentence"}));
  EXPECT_EQ(CheckLora(BertLarge()).front().message,
            "adapters of encoders are not modelled: the family is bert");
}

TEST(ArchitectureTest, EveryMissingDimensionIsNamed) {
  EXPECT_EQ(Fields(Architecture{}),
            (Names{"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                   "head_dim", "intermediate_size", "vocab_size"}));
}

TEST(ArchitectureTest, KeyValueHeadsDivideHeads) {
  Architecture a = Llama31With8B();
  a.kv_heads = 5;
  EXPECT_EQ(Fields(a), Names{"num_key_value_heads"});
}

TEST(ArchitectureTest, RotaryPositionsTurnPairs) {
  Architecture a = Llama31With8B();
  a.head_size = 127;
  EXPECT_EQ(Fields(a), Names{"head_dim"});
}

TEST(ArchitectureTest, LearnedPositionsNeedALength) {
  Architecture a = Gpt2Small();
  a.max_positions = 0;
  EXPECT_EQ(Fields(a), Names{"max_position_embeddings"});
  a = Mpt7B();  // ALiBi has no table
  a.max_positions = 0;
  EXPECT_EQ(Fields(a), Names());
}

TEST(ArchitectureTest, FamiliesRefuseWhatTheirLayersLack) {
  Architecture a = Gpt2Small();
  a.position = Position::kAlibi;
  EXPECT_EQ(Fields(a), Names{"position"});

  a = Mpt7B();
  a.activator = Activator::kSwiGlu;
  a.position = Position::kRotary;
  a.head_size = 64;
  EXPECT_EQ(Fields(a), (Names{"activation", "position", "head_dim"}));

  a = Llama2With7B();
  a.activator = Activator::kGelu;
  a.normalization = Normalization::kLayerNorm;
  EXPECT_EQ(Fields(a), (Names{"activation", "normalization"}));

  a = Llama2With7B();
  a.norm_bias = true;
  EXPECT_EQ(Fields(a), Names{"norm_bias"});
}

// Megatron-LM's GPT: rotary positions, a gate, RMS norms and grouped queries are options.
TEST(ArchitectureTest, Gpt2IsMegatronsGptWithItsOptions) {
  Architecture a = Gpt2Small();
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
  EXPECT_TRUE(HasFusedAttention(Gpt2Small()));
}

TEST(ArchitectureTest, SomeFamiliesHaveFeedForwardBesideAttention) {
  EXPECT_EQ(Fields(Gptj6B()), Names());
  EXPECT_EQ(Fields(Pythia6B9()), Names());
  EXPECT_EQ(Fields(Falcon7B()), Names());
  Architecture a = Falcon7B();
  a.parallel_residual_norms = 2;  // Falcon-40B
  EXPECT_EQ(Fields(a), Names());
  a.parallel_residual_norms = 3;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Pythia6B9();
  a.parallel_residual_norms = 0;  // use_parallel_residual: false
  EXPECT_EQ(Fields(a), Names());
  a = Gptj6B();
  a.parallel_residual_norms = 2;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Llama2With7B();
  a.parallel_residual_norms = 1;
  EXPECT_EQ(Fields(a), Names{"parallel_residual_norms"});
  a = Gptj6B();
  a.tie_embeddings = true;
  EXPECT_EQ(Fields(a), Names{"lm_head_bias"});
}

TEST(ArchitectureTest, OnlyQwen2GatesItsSharedExperts) {
  EXPECT_EQ(Fields(Qwen15Moe()), Names());
  Architecture a = Qwen15Moe();
  a.experts.shared_feed_forward = 0;
  EXPECT_EQ(Fields(a), Names{"shared_expert_gate"});
  a = Mixtral8x7B();
  a.experts.shared_gate = true;
  EXPECT_EQ(Fields(a), Names{"shared_expert_gate"});
}

TEST(ArchitectureTest, CountsStayInside64Bits) {
  Architecture a = Llama2With7B();
  a.hidden = kMostWidth;
  a.feed_forward = kMostWidth;  // 2^36 elements in one matrix
  const Names fields = Fields(a);
  EXPECT_NE(std::find(fields.begin(), fields.end(), "intermediate_size"), fields.end());
  a.hidden = kMostWidth + 1;
  EXPECT_EQ(Fields(a), Names{"hidden_size"});
}

TEST(ArchitectureTest, ExpertsHaveTheirRanges) {
  const auto fields = [](const Experts& experts) {
    Architecture a = Mixtral8x7B();
    a.experts = experts;
    return Fields(a);
  };
  const Experts good = Mixtral8x7B().experts;
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
    Architecture a = Mixtral8x7B();
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
  Architecture a = Mixtral8x7B();
  a.experts.leading_dense = 3;
  EXPECT_FALSE(HasExperts(a, 2));
  EXPECT_TRUE(HasExperts(a, 3));
  a.experts.leading_dense = 0;
  a.experts.every = 2;
  EXPECT_FALSE(HasExperts(a, 0));
  EXPECT_TRUE(HasExperts(a, 1));
  EXPECT_FALSE(HasExperts(Llama2With7B(), 1));
}

TEST(ArchitectureTest, FamiliesHaveExpertsOrNone) {
  Architecture a = Mixtral8x7B();
  a.experts = {};
  EXPECT_EQ(Fields(a), Names{"num_experts"});  // a Mistral
  a = Llama31With8B();
  a.experts = Mixtral8x7B().experts;
  EXPECT_EQ(Fields(a), Names());
  a = Gemma2With9B();
  a.experts = Mixtral8x7B().experts;
  EXPECT_EQ(Fields(a), Names());
  a = Gpt2Small();
  a.experts = Mixtral8x7B().experts;
  EXPECT_EQ(Fields(a), Names{"num_experts"});
}

TEST(ArchitectureTest, OnlySomeFamiliesHaveNormsOfHeads) {
  Architecture a = Llama31With8B();
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names());
  a = Gpt2Small();
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names{"use_qk_norm"});
}

TEST(ArchitectureTest, LatentAttentionHasItsRanges) {
  Architecture a = DeepseekV3();
  a.latent = {};
  EXPECT_EQ(Fields(a),
            (Names{"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}));
  a = DeepseekV3();
  a.latent.rotary_head = 63;
  EXPECT_EQ(Fields(a), (Names{"qk_rope_head_dim", "head_dim"}));
  a = DeepseekV3();
  a.kv_heads = 64;
  a.latent.query_rank = -1;
  EXPECT_EQ(Fields(a), Names{"q_lora_rank"});
  a.latent.query_rank = 0;
  EXPECT_EQ(Fields(a), Names{"num_key_value_heads"});
  a = DeepseekV3();
  a.latent.plain_head = 127;
  a.head_size = 127 + 64;
  EXPECT_EQ(Fields(a), Names());
  a.qk_norm = true;
  EXPECT_EQ(Fields(a), Names{"use_qk_norm"});
  a = Llama31With8B();
  a.latent = DeepseekV3().latent;
  EXPECT_EQ(Fields(a), Names{"kv_lora_rank"});
  a = DeepseekV3();
  a.lora = {.rank = 8, .targets = {.linear_qkv = true}};
  EXPECT_EQ(CheckLora(a).front().message,
            "adapters of latent attention's queries, keys and values are not modelled");
  a.lora.targets = {.projection = true};
  EXPECT_TRUE(CheckLora(a).empty());
}

TEST(ArchitectureTest, WindowsOfSomeBlocks) {
  EXPECT_FALSE(AttendsInFull(GptOss20B(), 0));
  EXPECT_TRUE(AttendsInFull(GptOss20B(), 1));
  EXPECT_FALSE(AttendsInFull(Mistral7B(), 1));
  Architecture a = GptOss20B();
  a.attention_window = 0;
  EXPECT_FALSE(AttendsInFull(a, 1));
  EXPECT_EQ(Fields(a), Names{"sliding_window_pattern"});
  a = GptOss20B();
  a.full_attention_every = 1;
  EXPECT_EQ(Fields(a), Names{"sliding_window_pattern"});
  a = GptOss20B();
  a.experts = {};
  EXPECT_EQ(Fields(a), Names{"num_experts"});
}

TEST(ArchitectureTest, ChunksAndCapsAreOfDecoders) {
  Architecture a = Llama4Scout();
  a.attention_window = 4096;
  EXPECT_EQ(Fields(a), Names{"attention_chunk_size"});
  EXPECT_TRUE(AttendsInFull(Llama4Scout(), 3));
  EXPECT_FALSE(AttendsInFull(Llama4Scout(), 4));
  a = BertLarge();
  a.logit_cap = 30;
  EXPECT_EQ(Fields(a), Names{"final_logit_softcapping"});
  a = Phi4();
  a.attention_bias = true;
  EXPECT_EQ(Fields(a), Names{"attention_bias"});
  a = Phi4();
  a.lora = {.rank = 8, .targets = {.gate = true}};
  EXPECT_EQ(CheckLora(a).front().message,
            "in the family phi3, one linear layer computes gate and "
            "up");
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
  EXPECT_EQ(message(Gpt2Small(), qkv), "");
  EXPECT_EQ(message(Llama2With7B(), {.rank = 8}),
            "targets: no linear layer has an adapter, so there is nothing to train");
  EXPECT_EQ(message(Gpt2Small(), {.rank = 8, .targets = {.query = true}}),
            "targets: in the family gpt2, one linear layer computes queries, keys and values");
  EXPECT_EQ(message(Llama2With7B(), {.rank = 8, .targets = {.linear_qkv = true, .key = true}}),
            "targets: linear_qkv already contains the adapter of queries, keys and values");
  EXPECT_EQ(message(Gpt2Small(), {.rank = 8, .targets = {.gate = true}}),
            "targets: this model's feed-forward has no gate: activation is gelu");
  EXPECT_EQ(message(Llama2With7B(), {.rank = 8, .targets = {.linear_fc1 = true, .up = true}}),
            "targets: linear_fc1 already contains the adapter of gate and up");
  EXPECT_EQ(message(Mixtral8x7B(), qkv), "");
  EXPECT_EQ(message(Mixtral8x7B(), {.rank = 8, .targets = {.query = true, .down = true}}),
            "targets: adapters of experts are not modelled: the model has 8");
  // Keys of Llama 3.1 are 1024 wide.
  EXPECT_EQ(message(Llama31With8B(), {.rank = 1025, .targets = {.linear_qkv = true}}),
            "rank: rank must be at most 1024, the width of the narrowest linear layer, but is "
            "1025");
}

}  // namespace
}  // namespace stepcast::model
