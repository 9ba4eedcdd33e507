#include <cstdint>
#include <string>

#include "src/formats/huggingface.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using Reader = HuggingFaceReader;

// A number that null disables, and that is `absent` if the key is missing.
double ReadCap(Reader& reader, const std::string& key, double absent) {
  if (!reader.Has(key)) return absent;
  return reader.Find(key) == nullptr ? 0 : reader.Number(key, 0);
}

// The common part of Gemma2Config and Gemma3TextConfig.
Architecture ReadGemma(Family family, Reader& reader, KeysOfFields& keys,
                       const DecoderDefaults& absent) {
  constexpr std::int64_t kHeadSize = 256, kKeyValueHeads = 4;
  Architecture a = ReadRotaryDecoder(family, reader, keys, absent);
  if (reader.Find("num_key_value_heads") == nullptr) a.kv_heads = kKeyValueHeads;
  if (reader.Find("head_dim") == nullptr) a.head_size = kHeadSize;
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    if (!reader.Text(key, "gelu_pytorch_tanh").starts_with("gelu")) {
      reader.Warn(key, "the forecast uses GELU instead");
    }
  }
  if (reader.Boolean("use_bidirectional_attention", false)) {
    reader.Refuse("use_bidirectional_attention", "only causal attention is modelled in decoders",
                  kTakeTheKeyOut);
  }
  reader.Accept("cache_implementation");
  return a;
}

}  // namespace

// GemmaConfig.
Architecture ReadGemma1(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadGemma(Family::kGemma, reader, keys, {});
  if (reader.Find("num_key_value_heads") == nullptr) a.kv_heads = a.heads;
  ReadFullAttention(reader, a);
  return a;
}

// GlmConfig (GLM-4-9B) and Glm4Config (GLM-4-0414), which have the same defaults.
Architecture ReadGlmOf(Family family, Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kHeadSize = 128, kKeyValueHeads = 2;
  Architecture a = ReadRotaryDecoder(family, reader, keys);
  if (reader.Find("num_key_value_heads") == nullptr) a.kv_heads = kKeyValueHeads;
  if (reader.Find("head_dim") == nullptr) a.head_size = kHeadSize;
  a.attention_bias = reader.Boolean("attention_bias", true);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}
Architecture ReadGlm(Reader& reader, KeysOfFields& keys) {
  return ReadGlmOf(Family::kGlm, reader, keys);
}
Architecture ReadGlm4(Reader& reader, KeysOfFields& keys) {
  return ReadGlmOf(Family::kGlm4, reader, keys);
}

Architecture ReadStarcoder2(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kKeyValueHeads = 2;
  Architecture a = ReadRotaryDecoder(Family::kStarcoder2, reader, keys);
  if (reader.Find("num_key_value_heads") == nullptr) a.kv_heads = kKeyValueHeads;
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  a.attention_bias = a.projection_bias = a.feed_forward_bias = reader.Boolean("use_bias", true);
  if (!reader.Text("hidden_act", "gelu_pytorch_tanh").starts_with("gelu")) {
    reader.Warn("hidden_act", "the forecast uses GELU instead");
  }
  const bool residual = reader.Number("residual_dropout", 0) > 0;
  const bool embedding = reader.Number("embedding_dropout", 0) > 0;
  a.dropout = residual || embedding;
  ReadWindow(reader, reader.OptionalDimension("sliding_window").value_or(0), 0, "sliding_window",
             a);
  if (reader.Text("norm_type", "layer_norm") != "layer_norm") {
    reader.Refuse("norm_type", "models of type starcoder2 have layer norms");
  }
  if (reader.Text("mlp_type", "default") != "default") {
    reader.Refuse("mlp_type", "models of type starcoder2 have two products and GELU");
  }
  return a;
}

Architecture ReadErnie(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kLlama, reader, keys);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  a.attention_bias = a.projection_bias = a.feed_forward_bias = reader.Boolean("use_bias", false);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}

// Its multipliers cause warnings.
Architecture ReadGranite(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kLlama, reader, keys);
  ReadBiases(reader, a);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}

Architecture ReadSeedOss(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kLlama, reader, keys);
  a.attention_bias = reader.Boolean("attention_bias", true);
  a.projection_bias = reader.Boolean("attention_out_bias", false);
  a.feed_forward_bias = reader.Boolean("mlp_bias", false);
  if (reader.Number("residual_dropout", 0) > 0) a.dropout = true;
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}

Architecture ReadSmolLm3(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kKeyValueHeads = 4;
  Architecture a = ReadRotaryDecoder(Family::kLlama, reader, keys);
  if (reader.Find("num_key_value_heads") == nullptr) a.kv_heads = kKeyValueHeads;
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  ReadBiases(reader, a);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}

Architecture ReadGemma2(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kWindow = 4096, kFullEvery = 2;
  Architecture a = ReadGemma(Family::kGemma2, reader, keys, {});
  a.score_cap = ReadCap(reader, "attn_logit_softcapping", a.score_cap);
  a.logit_cap = ReadCap(reader, "final_logit_softcapping", a.logit_cap);
  ReadAlternatingWindow(reader, reader.OptionalDimension("sliding_window").value_or(kWindow),
                        kFullEvery, a);
  return a;
}

Architecture ReadGemma3(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kWindow = 4096, kFullEvery = 6;
  // The released wrappers leave these keys to the class's defaults.
  Architecture a = ReadGemma(Family::kGemma3, reader, keys, {.heads = 8, .vocabulary = 262'208});
  a.score_cap = ReadCap(reader, "attn_logit_softcapping", 0);
  a.logit_cap = ReadCap(reader, "final_logit_softcapping", 0);
  // Since layer_types exists, the older key has a private name.
  const std::int64_t every =
      reader.OptionalDimension("sliding_window_pattern")
          .value_or(reader.OptionalDimension("_sliding_window_pattern").value_or(kFullEvery));
  ReadAlternatingWindow(reader, reader.OptionalDimension("sliding_window").value_or(kWindow), every,
                        a);
  return a;
}

Architecture ReadOlmo2(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kOlmo2, reader, keys);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  ReadFullAttention(reader, a);
  return a;
}

// Phi3Config: Phi-3, Phi-3.5 and Phi-4.
Architecture ReadPhi3(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kPhi3, reader, keys);
  ReadGate(reader);
  const bool residual = reader.Number("resid_pdrop", 0) > 0;
  const bool embedding = reader.Number("embd_pdrop", 0) > 0;
  a.dropout = residual || embedding;
  ReadWindow(reader, reader.OptionalDimension("sliding_window").value_or(0), 0, "sliding_window",
             a);
  // The full attention of every n-th layer, and the factor of interpolation.
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) reader.Accept(key);
  return a;
}

}  // namespace stepcast::formats
