#pragma once

#include <cstdint>
#include <string>

#include "src/model/architecture.h"
#include "src/model/example_families.h"

// Published models for tests, with dimensions from their papers and repositories.
namespace stepcast::model {

inline Architecture Gpt2Small() {
  Architecture a = TypicalOf("gpt2");
  a.layers = 12;
  a.hidden = 768;
  a.heads = a.kv_heads = 12;
  a.head_size = 64;
  a.feed_forward = 3072;
  a.vocabulary = 50257;
  a.max_positions = 1024;
  a.dropout = a.attention_dropout = true;
  return a;
}

inline Architecture LlamaLike(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                              std::int64_t kv_heads, std::int64_t feed_forward,
                              std::int64_t vocabulary) {
  Architecture a = TypicalOf("llama");
  a.layers = layers;
  a.hidden = hidden;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_size = hidden / heads;
  a.feed_forward = feed_forward;
  a.vocabulary = vocabulary;
  return a;
}

inline Architecture Llama2With7B() { return LlamaLike(32, 4096, 32, 32, 11008, 32000); }
inline Architecture Llama31With8B() { return LlamaLike(32, 4096, 32, 8, 14336, 128256); }
inline Architecture Llama31With70B() { return LlamaLike(80, 8192, 64, 8, 28672, 128256); }
inline Architecture Llama31With405B() { return LlamaLike(126, 16384, 128, 8, 53248, 128256); }

inline Architecture Mistral7B() {
  Architecture a = LlamaLike(32, 4096, 32, 8, 14336, 32000);
  a.family = FamilyCalled("mistral");
  a.attention_window = 4096;
  return a;
}

inline Architecture Mixtral8x7B() {
  Architecture a = LlamaLike(32, 4096, 32, 8, 14336, 32000);
  a.family = FamilyCalled("mixtral");
  a.experts = {.count = 8, .per_token = 2, .feed_forward = 14336};
  return a;
}

inline Architecture Mixtral8x22B() {
  Architecture a = LlamaLike(56, 6144, 48, 8, 16384, 32000);
  a.family = FamilyCalled("mixtral");
  a.experts = {.count = 8, .per_token = 2, .feed_forward = 16384};
  return a;
}

inline Architecture Qwen2With7B() {
  Architecture a = LlamaLike(28, 3584, 28, 4, 18944, 152064);
  a.family = FamilyCalled("qwen2");
  a.attention_bias = true;
  return a;
}

// Returns a model with heads of 128 elements. The number of heads times 128 may differ from the
// hidden size.
inline Architecture Qwen3Like(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                              std::int64_t kv_heads, std::int64_t feed_forward) {
  Architecture a = TypicalOf("qwen3");
  a.layers = layers;
  a.hidden = hidden;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_size = 128;
  a.feed_forward = feed_forward;
  a.vocabulary = 151936;
  return a;
}

inline Architecture Qwen3With8B() { return Qwen3Like(36, 4096, 32, 8, 12288); }

inline Architecture Qwen3With30B() {
  Architecture a = Qwen3Like(48, 2048, 32, 4, 6144);
  a.experts = {.count = 128, .per_token = 8, .feed_forward = 768, .scores = RouterScores::kSoftmax};
  return a;
}

inline Architecture Qwen3With235B() {
  Architecture a = Qwen3Like(94, 4096, 64, 4, 12288);
  a.experts = {
      .count = 128, .per_token = 8, .feed_forward = 1536, .scores = RouterScores::kSoftmax};
  return a;
}

inline Architecture DeepseekLike(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                 std::int64_t query_rank, std::int64_t feed_forward,
                                 std::int64_t vocabulary) {
  Architecture a = TypicalOf("deepseek");
  a.layers = layers;
  a.hidden = hidden;
  a.heads = a.kv_heads = heads;
  a.latent = {.kv_rank = 512,
              .query_rank = query_rank,
              .plain_head = 128,
              .rotary_head = 64,
              .value_head = 128};
  a.head_size = 192;
  a.feed_forward = feed_forward;
  a.vocabulary = vocabulary;
  return a;
}

inline Architecture DeepseekV3() {
  Architecture a = DeepseekLike(61, 7168, 128, 1536, 18432, 129280);
  a.experts.count = 256;
  a.experts.per_token = 8;
  a.experts.feed_forward = a.experts.shared_feed_forward = 2048;
  a.experts.leading_dense = 3;
  a.experts.groups = 8;
  a.experts.groups_per_token = 4;
  return a;
}

inline Architecture DeepseekV2Lite() {
  Architecture a = DeepseekLike(27, 2048, 16, 0, 10944, 102400);
  a.experts = {.count = 64,
               .per_token = 6,
               .feed_forward = 1408,
               .shared_feed_forward = 2 * 1408,
               .leading_dense = 1,
               .scores = RouterScores::kSoftmax,
               .normalized_weights = false};
  return a;
}

inline Architecture Moonlight16B() {
  Architecture a = DeepseekV2Lite();
  a.feed_forward = 11264;
  a.vocabulary = 163840;
  a.experts.scores = RouterScores::kSigmoid;
  a.experts.normalized_weights = a.experts.balancing_bias = true;
  return a;
}

inline Architecture KimiK2() {
  Architecture a = DeepseekLike(61, 7168, 64, 1536, 18432, 163840);
  a.experts.count = 384;
  a.experts.per_token = 8;
  a.experts.feed_forward = a.experts.shared_feed_forward = 2048;
  a.experts.leading_dense = 1;
  return a;
}

inline Architecture GptOss(std::int64_t layers, std::int64_t experts) {
  Architecture a = TypicalOf("gpt_oss");
  a.layers = layers;
  a.hidden = a.feed_forward = 2880;
  a.heads = 64;
  a.kv_heads = 8;
  a.head_size = 64;
  a.vocabulary = 201088;
  a.attention_window = 128;
  a.full_attention_every = 2;
  a.experts.count = experts;
  a.experts.per_token = 4;
  a.experts.feed_forward = 2880;
  return a;
}

inline Architecture GptOss20B() { return GptOss(24, 32); }
inline Architecture GptOss120B() { return GptOss(36, 128); }

// Returns a decoder of `family` with these dimensions and the family's typical properties.
inline Architecture OfFamily(const std::string& family, std::int64_t layers, std::int64_t hidden,
                             std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size,
                             std::int64_t feed_forward, std::int64_t vocabulary) {
  Architecture a = TypicalOf(family);
  a.layers = layers;
  a.hidden = hidden;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_size = head_size;
  a.feed_forward = feed_forward;
  a.vocabulary = vocabulary;
  return a;
}

inline Architecture Gemma2With9B() {
  Architecture a = OfFamily("gemma2", 42, 3584, 16, 8, 256, 14336, 256000);
  a.attention_window = 4096;
  a.full_attention_every = 2;
  return a;
}

inline Architecture Gemma3With27B() {
  Architecture a = OfFamily("gemma3", 62, 5376, 32, 16, 128, 21504, 262208);
  a.attention_window = 1024;
  a.full_attention_every = 6;
  return a;
}

inline Architecture Phi4() { return OfFamily("phi3", 40, 5120, 40, 10, 128, 17920, 100352); }
inline Architecture Olmo2With7B() {
  return OfFamily("olmo2", 32, 4096, 32, 32, 128, 11008, 100352);
}

inline Architecture Glm45() {
  Architecture a = OfFamily("glm4_moe", 92, 5120, 96, 8, 128, 12288, 151552);
  a.experts.count = 160;
  a.experts.per_token = 8;
  a.experts.feed_forward = a.experts.shared_feed_forward = 1536;
  a.experts.leading_dense = 3;
  return a;
}

inline Architecture Glm45Air() {
  Architecture a = OfFamily("glm4_moe", 46, 4096, 96, 8, 128, 10944, 151552);
  a.qk_norm = false;
  a.experts.count = 128;
  a.experts.per_token = 8;
  a.experts.feed_forward = a.experts.shared_feed_forward = 1408;
  a.experts.leading_dense = 1;
  return a;
}

// Returns a Llama 4 model in which every `every`-th block has experts: 1 for Scout, 2 for Maverick.
inline Architecture Llama4(std::int64_t experts, std::int64_t every) {
  Architecture a = OfFamily("llama4", 48, 5120, 40, 8, 128, 16384, 202048);
  a.attention_chunk = 8192;
  a.full_attention_every = 4;
  a.qk_norm = every == 1;
  a.experts.count = experts;
  a.experts.per_token = 1;
  a.experts.feed_forward = a.experts.shared_feed_forward = 8192;
  a.experts.every = every;
  return a;
}

inline Architecture Llama4Scout() { return Llama4(16, 1); }
inline Architecture Llama4Maverick() { return Llama4(128, 2); }

inline Architecture Glm4With9B() { return OfFamily("glm", 40, 4096, 32, 2, 128, 13696, 151552); }
inline Architecture Glm40414With9B() {
  Architecture a = OfFamily("glm4", 40, 4096, 32, 2, 128, 13696, 151552);
  return a;
}
inline Architecture Gemma7B() { return OfFamily("gemma", 28, 3072, 16, 16, 256, 24576, 256000); }
inline Architecture Starcoder2With7B() {
  Architecture a = OfFamily("starcoder2", 32, 4608, 36, 4, 128, 18432, 49152);
  a.attention_window = 4096;
  return a;
}
inline Architecture Gptj6B() { return OfFamily("gptj", 28, 4096, 16, 16, 256, 16384, 50400); }
inline Architecture Pythia6B9() {
  return OfFamily("gpt_neox", 32, 4096, 32, 32, 128, 16384, 50432);
}
inline Architecture Phi2() { return OfFamily("phi", 32, 2560, 32, 32, 80, 10240, 51200); }
inline Architecture Falcon7B() { return OfFamily("falcon", 32, 4544, 71, 1, 64, 18176, 65024); }
inline Architecture CommandR() { return OfFamily("cohere", 40, 8192, 64, 64, 128, 22528, 256000); }

inline Architecture Qwen15Moe() {
  Architecture a = OfFamily("qwen2", 24, 2048, 16, 16, 128, 5632, 151936);
  a.experts = {.count = 60,
               .per_token = 4,
               .feed_forward = 1408,
               .shared_feed_forward = 5632,
               .scores = RouterScores::kSoftmax,
               .normalized_weights = false,
               .shared_gate = true};
  return a;
}

inline Architecture Olmoe() {
  Architecture a = OfFamily("olmoe", 16, 2048, 16, 16, 128, 1024, 50304);
  a.experts.count = 64;
  a.experts.per_token = 8;
  a.experts.feed_forward = 1024;
  return a;
}

inline Architecture MiniMaxM2() {
  Architecture a = OfFamily("olmoe", 62, 3072, 48, 8, 128, 1536, 200064);
  a.experts = {.count = 256,
               .per_token = 8,
               .feed_forward = 1536,
               .scores = RouterScores::kSigmoid,
               .balancing_bias = true};
  return a;
}

inline Architecture Nemotron15B() {
  Architecture a = TypicalOf("nemotron");
  a.layers = 32;
  a.hidden = 6144;
  a.heads = 48;
  a.kv_heads = 8;
  a.head_size = 128;
  a.feed_forward = 24576;
  a.vocabulary = 256000;
  return a;
}

inline Architecture BertLarge() {
  Architecture a = TypicalOf("bert");
  a.layers = 24;
  a.hidden = 1024;
  a.heads = a.kv_heads = 16;
  a.head_size = 64;
  a.feed_forward = 4096;
  a.vocabulary = 30522;
  a.max_positions = 512;
  a.dropout = a.attention_dropout = true;
  return a;
}

inline Architecture Mpt7B() {
  Architecture a = TypicalOf("mpt");
  a.layers = 32;
  a.hidden = 4096;
  a.heads = a.kv_heads = 32;
  a.head_size = 128;
  a.feed_forward = 16384;
  a.vocabulary = 50432;
  return a;
}

}  // namespace stepcast::model
