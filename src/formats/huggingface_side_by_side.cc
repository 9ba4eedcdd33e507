#include <cstdint>
#include <initializer_list>
#include <string>

#include "src/formats/huggingface.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using Reader = HuggingFaceReader;

void RequireGelu(Reader& reader, const char* key) {
  if (!reader.Text(key, "gelu").starts_with("gelu")) {
    reader.Warn(key, "the forecast uses GELU instead");
  }
}

// Whether any of these dropout rates, on residual additions or embeddings, is above zero.
bool DropsOut(Reader& reader, std::initializer_list<const char*> keys) {
  bool drops = false;
  for (const char* key : keys) drops |= reader.Number(key, 0) > 0;
  return drops;
}

}  // namespace

// GPTJConfig.
Architecture ReadGptj(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadGpt2Dimensions(Family::kGptj, reader, keys);
  a.max_positions = reader.OptionalDimension("n_positions").value_or(0);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", false);
  a.head_bias = !a.tie_embeddings;
  a.dropout = DropsOut(reader, {"resid_pdrop", "embd_pdrop"});
  a.attention_dropout = reader.Number("attn_pdrop", 0) > 0;
  RequireGelu(reader, "activation_function");
  // Keys of released files; rotary_dim determines the rotated part of heads.
  for (const char* key : {"rotary", "gradient_checkpointing"}) reader.Accept(key);
  return a;
}

// GPTNeoXConfig: GPT-NeoX-20B and Pythia.
Architecture ReadGptNeox(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kSeparateNorms = 2;
  Architecture a = ReadRotaryDecoder(Family::kGptNeox, reader, keys);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", true);
  a.parallel_residual_norms = reader.Boolean("use_parallel_residual", true) ? kSeparateNorms : 0;
  a.dropout = DropsOut(reader, {"hidden_dropout"});
  RequireGelu(reader, "hidden_act");
  return a;
}

// PhiConfig: Phi-1, Phi-1.5 and Phi-2.
Architecture ReadPhi(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kPhi, reader, keys);
  a.head_bias = !a.tie_embeddings;
  a.dropout = DropsOut(reader, {"resid_pdrop", "embd_pdrop"});
  RequireGelu(reader, "hidden_act");
  if (reader.Boolean("qk_layernorm", false)) {
    reader.Refuse("qk_layernorm", "norms of queries and keys are not modelled in the family phi",
                  kTakeTheKeyOut);
  }
  return a;
}

// FalconConfig. With `new_decoder_architecture` keys and values have heads of their own, and
// attention and feed-forward norms of their own, unless `num_ln_in_parallel_attn` is 1.
Architecture ReadFalcon(Reader& reader, KeysOfFields& keys) {
  Architecture a = TypicalOf(Family::kFalcon);
  keys = {{"head_dim", "num_attention_heads"},
          {"num_key_value_heads", "num_kv_heads"},
          {"intermediate_size", "ffn_hidden_size"}};
  a.layers = reader.Dimension("num_hidden_layers");
  a.hidden = reader.Dimension("hidden_size");
  a.heads = reader.Dimension("num_attention_heads");
  a.head_size = a.hidden / a.heads;
  a.feed_forward = reader.OptionalDimension("ffn_hidden_size").value_or(4 * a.hidden);
  a.vocabulary = reader.Dimension("vocab_size");
  a.max_positions = reader.OptionalDimension("max_position_embeddings").value_or(0);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  a.attention_bias = a.projection_bias = a.feed_forward_bias = reader.Boolean("bias", false);
  a.dropout = DropsOut(reader, {"hidden_dropout"});
  a.attention_dropout = reader.Number("attention_dropout", 0) > 0;
  RequireGelu(reader, "activation");
  if (reader.Boolean("alibi", false)) {
    reader.Refuse("alibi", "ALiBi positions are not modelled in the family falcon",
                  "describe the model in a model file, with 'family: mpt'");
  }
  const bool many_heads = reader.Boolean("new_decoder_architecture", false);
  const bool one_head = reader.Boolean("multi_query", true);
  const std::int64_t heads = reader.OptionalDimension("num_kv_heads").value_or(a.heads);
  a.kv_heads = many_heads ? heads : one_head ? 1 : a.heads;
  const std::int64_t norms =
      reader.OptionalDimension("num_ln_in_parallel_attn").value_or(many_heads ? 2 : 1);
  const bool side_by_side = reader.Boolean("parallel_attn", true) || many_heads;
  a.parallel_residual_norms = side_by_side ? norms : 0;
  return a;
}

// CohereConfig: Command R.
Architecture ReadCohere(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kCohere, reader, keys);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  a.qk_norm = reader.Boolean("use_qk_norm", false);
  return a;
}

// Cohere2Config: three layers of four have a window and rotary positions.
Architecture ReadCohere2(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kWindow = 4096, kFullEvery = 4;
  Architecture a = ReadCohere(reader, keys);
  const std::int64_t every =
      reader.OptionalDimension("sliding_window_pattern")
          .value_or(reader.OptionalDimension("_sliding_window_pattern").value_or(kFullEvery));
  ReadAlternatingWindow(reader, reader.OptionalDimension("sliding_window").value_or(kWindow), every,
                        a);
  reader.Accept("cache_implementation");
  // Constants of releases before transformers 4.50.
  for (const char* key : {"order_of_interleaved_layers", "position_embedding_type", "rotary_pct",
                          "use_embedding_sharing", "use_gated_activation", "use_parallel_block",
                          "use_parallel_embedding"}) {
    reader.Accept(key);
  }
  return a;
}

}  // namespace stepcast::formats
