#include <cstdint>
#include <optional>
#include <string>

#include "src/formats/huggingface.h"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using model::LatentAttention;
using Reader = HuggingFaceReader;

// Router losses of training, which the forecast leaves out.
void ReadRouterLoss(Reader& reader) {
  if (reader.Boolean("output_router_logits", false)) {
    reader.Warn("output_router_logits", "the forecast leaves out the router's auxiliary loss");
  }
  if (reader.Number("router_jitter_noise", 0) > 0) {
    reader.Warn("router_jitter_noise", "the forecast leaves out noise on what the router takes");
  }
}

// Qwen's classes list the layers without experts.
void ReadDensePlaces(Reader& reader) {
  if (const JsonValue* dense = reader.Find("mlp_only_layers");
      dense != nullptr && dense->elements > 0) {
    reader.Refuse("mlp_only_layers", "dense layers at listed positions are not modelled",
                  "remove the key if all layers have experts; otherwise write a model file with "
                  "first_k_dense_replace or decoder_sparse_step");
  }
}

// Checkpoints published in 8 or 4 bits: their storage does not affect training.
void ReadQuantization(Reader& reader) {
  if (reader.Find("quantization_config") == nullptr) return;
  reader.Warn("quantization_config",
              "the forecast keeps weights in the type of training.precision, not in that of this "
              "checkpoint");
}

// transformers leaves multi-token prediction out of the model, and so do programs that do not train
// it.
void ReadFurtherTokens(Reader& reader) {
  if (reader.OptionalDimensionOrZero("num_nextn_predict_layers") == 0) return;
  reader.Warn("num_nextn_predict_layers",
              "the forecast is that of the main model, without layers that predict further tokens; "
              "with num_nextn_predict_layers a model file has one");
}

// Defaults in which classes of one kind differ.
struct DeepseekDefaults {
  model::RouterScores scores = model::RouterScores::kSigmoid;
  std::int64_t leading_dense = 0, groups = 0, groups_per_token = 0;
  bool normalized_weights = true;
};

LatentAttention ReadLatentAttention(Reader& reader) {
  return {.kv_rank = reader.Dimension("kv_lora_rank"),
          .query_rank = reader.OptionalDimension("q_lora_rank").value_or(0),
          .plain_head = reader.Dimension("qk_nope_head_dim"),
          .rotary_head = reader.Dimension("qk_rope_head_dim"),
          .value_head = reader.Dimension("v_head_dim")};
}

void ReadDeepseekRouter(Reader& reader, const DeepseekDefaults& absent, model::Experts& experts) {
  const bool sigmoid = absent.scores == model::RouterScores::kSigmoid;
  const std::string scores = reader.Text("scoring_func", sigmoid ? "sigmoid" : "softmax");
  experts.scores =
      scores == "sigmoid" ? model::RouterScores::kSigmoid : model::RouterScores::kSoftmax;
  if (scores != "sigmoid" && scores != "softmax") {
    reader.Refuse("scoring_func", "only softmax and sigmoid are modelled");
  }
  const std::string method = reader.Text("topk_method", sigmoid ? "noaux_tc" : "greedy");
  experts.balancing_bias = method == "noaux_tc";
  if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
    reader.Refuse("topk_method", "this way to choose experts is not modelled");
  }
  experts.groups = reader.OptionalDimension("n_group").value_or(absent.groups);
  experts.groups_per_token =
      reader.OptionalDimension("topk_group").value_or(absent.groups_per_token);
  // One group, or all groups, does not restrict the choice of experts.
  if (method == "greedy" || experts.groups <= 1 || experts.groups == experts.groups_per_token) {
    experts.groups = experts.groups_per_token = 0;
  }
  experts.normalized_weights = reader.Boolean("norm_topk_prob", absent.normalized_weights);
}

// DeepseekV2Config, DeepseekV3Config, and the same classes under other names.
Architecture ReadDeepseek(Reader& reader, KeysOfFields& keys, const DeepseekDefaults& absent) {
  keys["num_experts"] = "n_routed_experts";
  keys["shared_expert_intermediate_size"] = "n_shared_experts";
  Architecture a = ReadRotaryDecoder(Family::kDeepseek, reader, keys);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  a.latent = ReadLatentAttention(reader);
  // transformers 5 writes the rotated part of a head under one name, and the whole head under the
  // other.
  reader.Accept("qk_head_dim");
  a.head_size = a.latent.plain_head + a.latent.rotary_head;
  if (reader.Boolean("attention_bias", false)) {
    reader.Refuse("attention_bias", "latent attention is modelled without biases", kTakeTheKeyOut);
  }
  ReadQuantization(reader);
  ReadFurtherTokens(reader);
  if (reader.Find("n_routed_experts") == nullptr) return a;
  a.experts.count = reader.Dimension("n_routed_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = reader.Dimension("moe_intermediate_size");
  a.experts.shared_feed_forward =
      reader.OptionalDimensionOrZero("n_shared_experts") * a.experts.feed_forward;
  a.experts.leading_dense = reader.Has("first_k_dense_replace")
                                ? reader.OptionalDimensionOrZero("first_k_dense_replace")
                                : absent.leading_dense;
  if (reader.OptionalDimension("moe_layer_freq").value_or(1) != 1) {
    reader.Refuse(
        "moe_layer_freq", "dense layers among those with experts are not modelled",
        "describe the model in a model file with decoder_sparse_step; see docs/formats.md");
  }
  ReadDeepseekRouter(reader, absent, a.experts);
  return a;
}

}  // namespace

// MixtralConfig.
Architecture ReadMixtral(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kKeyValueHeads = 8;
  keys["num_experts"] = "num_local_experts";
  keys["moe_intermediate_size"] = "intermediate_size";
  Architecture a = ReadRotaryDecoder(Family::kMixtral, reader, keys);
  if (!reader.Has("num_key_value_heads")) a.kv_heads = kKeyValueHeads;
  ReadGate(reader);
  ReadWindow(reader, reader.OptionalDimension("sliding_window").value_or(0), 0, "sliding_window",
             a);
  a.experts = {.count = reader.Dimension("num_local_experts"),
               .per_token = reader.Dimension("num_experts_per_tok"),
               .feed_forward = a.feed_forward};
  ReadRouterLoss(reader);
  return a;
}

// Qwen3MoeConfig. `intermediate_size` is the width of blocks without experts.
Architecture ReadQwen3Moe(Reader& reader, KeysOfFields& keys) {
  if (reader.Find("num_experts") == nullptr) keys["num_experts"] = "num_local_experts";
  Architecture a = ReadRotaryDecoder(Family::kQwen3, reader, keys);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  ReadOptionalWindow(reader, a);
  // transformers 5 writes the number under either name.
  const std::optional<std::int64_t> local = reader.OptionalDimension("num_local_experts");
  a.experts.count =
      local && reader.Find("num_experts") == nullptr ? *local : reader.Dimension("num_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = reader.Dimension("moe_intermediate_size");
  a.experts.every = reader.OptionalDimension("decoder_sparse_step").value_or(1);
  a.experts.normalized_weights = reader.Boolean("norm_topk_prob", false);
  ReadDensePlaces(reader);
  ReadRouterLoss(reader);
  return a;
}

// Qwen2MoeConfig, whose shared expert has a gate.
Architecture ReadQwen2Moe(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kQwen2, reader, keys);
  ReadGate(reader);
  a.attention_bias = reader.Boolean("qkv_bias", true);
  ReadOptionalWindow(reader, a);
  a.experts.count = reader.Dimension("num_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = reader.Dimension("moe_intermediate_size");
  a.experts.shared_feed_forward = reader.Dimension("shared_expert_intermediate_size");
  a.experts.shared_gate = true;
  a.experts.every = reader.OptionalDimension("decoder_sparse_step").value_or(1);
  a.experts.scores = model::RouterScores::kSoftmax;
  a.experts.normalized_weights = reader.Boolean("norm_topk_prob", false);
  ReadDensePlaces(reader);
  ReadRouterLoss(reader);
  return a;
}

// OlmoeConfig. `intermediate_size` is that of an expert.
Architecture ReadOlmoe(Reader& reader, KeysOfFields& keys) {
  keys["moe_intermediate_size"] = "intermediate_size";
  Architecture a = ReadRotaryDecoder(Family::kOlmoe, reader, keys);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  ReadFullAttention(reader, a);
  a.experts.count = reader.Dimension("num_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = a.feed_forward;
  a.experts.normalized_weights = reader.Boolean("norm_topk_prob", false);
  ReadRouterLoss(reader);
  return a;
}

// MiniMaxM2Config, with OLMoE's norms of queries and keys.
Architecture ReadMiniMaxM2(Reader& reader, KeysOfFields& keys) {
  keys["num_experts"] = "num_local_experts";
  keys["moe_intermediate_size"] = "intermediate_size";
  Architecture a = ReadRotaryDecoder(Family::kOlmoe, reader, keys);
  ReadGate(reader);
  a.qk_norm = reader.Boolean("use_qk_norm", true);
  if (reader.Text("qk_norm_type", "per_layer") != "per_layer") {
    reader.Refuse("qk_norm_type", "only norms of all heads are modelled in this model_type");
  }
  ReadFullAttention(reader, a);
  reader.Accept("attn_type_list");  // the class has full attention in every layer
  // Multi-token prediction modules have keys of their own.
  const bool further = reader.Boolean("use_mtp", false);
  for (const char* key : {"num_mtp_modules", "mtp_transformer_layers"}) reader.Accept(key);
  if (further) {
    reader.Warn("use_mtp",
                "the forecast is that of the main model, without modules that predict further "
                "tokens");
  }
  a.experts.count = reader.Dimension("num_local_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = a.feed_forward;
  a.experts.shared_feed_forward = reader.OptionalDimensionOrZero("shared_intermediate_size");
  a.experts.scores = reader.Text("scoring_func", "sigmoid") == "sigmoid"
                         ? model::RouterScores::kSigmoid
                         : model::RouterScores::kSoftmax;
  a.experts.normalized_weights = true;
  a.experts.balancing_bias = reader.Boolean("use_routing_bias", true);
  ReadQuantization(reader);
  ReadRouterLoss(reader);
  return a;
}

// GraniteMoeConfig; its multipliers cause warnings.
Architecture ReadGraniteMoe(Reader& reader, KeysOfFields& keys) {
  keys["num_experts"] = "num_local_experts";
  keys["moe_intermediate_size"] = "intermediate_size";
  Architecture a = ReadRotaryDecoder(Family::kMixtral, reader, keys);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  ReadFullAttention(reader, a);
  a.experts = {.count = reader.Dimension("num_local_experts"),
               .per_token = reader.Dimension("num_experts_per_tok"),
               .feed_forward = a.feed_forward,
               .shared_feed_forward = reader.OptionalDimensionOrZero("shared_intermediate_size")};
  ReadRouterLoss(reader);
  return a;
}

// Ernie4_5_MoeConfig.
Architecture ReadErnieMoe(Reader& reader, KeysOfFields& keys) {
  keys["num_experts"] = "moe_num_experts";
  keys["num_experts_per_tok"] = "moe_k";
  keys["shared_expert_intermediate_size"] = "moe_num_shared_experts";
  keys["first_k_dense_replace"] = "moe_layer_start_index";
  keys["decoder_sparse_step"] = "moe_layer_interval";
  Architecture a = ReadRotaryDecoder(Family::kQwen3, reader, keys);
  a.qk_norm = false;
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  a.attention_bias = a.projection_bias = a.feed_forward_bias = reader.Boolean("use_bias", false);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  a.experts.count = reader.Dimension("moe_num_experts");
  a.experts.per_token = reader.Dimension("moe_k");
  a.experts.feed_forward = reader.Dimension("moe_intermediate_size");
  a.experts.shared_feed_forward =
      reader.OptionalDimensionOrZero("moe_num_shared_experts") * a.experts.feed_forward;
  a.experts.leading_dense = reader.OptionalDimensionOrZero("moe_layer_start_index");
  a.experts.every = reader.OptionalDimension("moe_layer_interval").value_or(1);
  const std::int64_t last = reader.OptionalDimension("moe_layer_end_index").value_or(a.layers - 1);
  if (last != a.layers - 1 && !reader.failed()) {
    reader.Refuse("moe_layer_end_index", "dense layers behind those with experts are not modelled",
                  kTakeTheKeyOut);
  }
  a.experts.scores = model::RouterScores::kSoftmax;
  a.experts.normalized_weights = a.experts.balancing_bias = true;
  for (const char* key : {"moe_norm_min"}) reader.Accept(key);
  ReadFurtherTokens(reader);
  ReadRouterLoss(reader);
  return a;
}

Architecture ReadDeepseekV2(Reader& reader, KeysOfFields& keys) {
  return ReadDeepseek(reader, keys,
                      {.scores = model::RouterScores::kSoftmax, .normalized_weights = false});
}

Architecture ReadDeepseekV3(Reader& reader, KeysOfFields& keys) {
  return ReadDeepseek(reader, keys, {.leading_dense = 3, .groups = 8, .groups_per_token = 4});
}

Architecture ReadKimiK2(Reader& reader, KeysOfFields& keys) {
  return ReadDeepseek(reader, keys, {});
}

// GptOssConfig, with heads of 64 and a window of 128 tokens by default.
Architecture ReadGptOss(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kHeadSize = 64, kWindow = 128, kFullEvery = 2;
  keys["num_experts"] = "num_local_experts";
  keys["moe_intermediate_size"] = "intermediate_size";
  Architecture a = ReadRotaryDecoder(Family::kGptOss, reader, keys);
  if (reader.Find("head_dim") == nullptr) a.head_size = kHeadSize;
  ReadGate(reader);
  if (!reader.Boolean("attention_bias", true)) {
    reader.Refuse("attention_bias", "all products of this model_type have biases", kTakeTheKeyOut);
  }
  ReadAlternatingWindow(reader, reader.OptionalDimension("sliding_window").value_or(kWindow),
                        kFullEvery, a);
  a.experts.count = reader.Dimension("num_local_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = a.feed_forward;
  for (const char* key : {"experts_per_token", "initial_context_length", "swiglu_limit"}) {
    reader.Accept(key);
  }
  ReadQuantization(reader);
  ReadRouterLoss(reader);
  return a;
}

// Glm4MoeConfig.
Architecture ReadGlm4Moe(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kLeadingDense = 1;
  keys["num_experts"] = "n_routed_experts";
  keys["shared_expert_intermediate_size"] = "n_shared_experts";
  Architecture a = ReadRotaryDecoder(Family::kGlm4Moe, reader, keys);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  a.attention_bias = reader.Boolean("attention_bias", false);
  a.qk_norm = reader.Boolean("use_qk_norm", false);
  ReadFurtherTokens(reader);
  a.experts.count = reader.Dimension("n_routed_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = reader.Dimension("moe_intermediate_size");
  a.experts.shared_feed_forward =
      reader.OptionalDimensionOrZero("n_shared_experts") * a.experts.feed_forward;
  a.experts.leading_dense = reader.Has("first_k_dense_replace")
                                ? reader.OptionalDimensionOrZero("first_k_dense_replace")
                                : kLeadingDense;
  ReadDeepseekRouter(reader, {}, a.experts);
  return a;
}

// Llama4TextConfig. `intermediate_size` is the width of an expert and of the shared expert.
Architecture ReadLlama4(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kChunk = 8192, kFullEvery = 4;
  keys["num_experts"] = "num_local_experts";
  keys["moe_intermediate_size"] = "intermediate_size";
  keys["intermediate_size"] = "intermediate_size_mlp";
  keys["decoder_sparse_step"] = "interleave_moe_layer_step";
  Architecture a = ReadRotaryDecoder(Family::kLlama4, reader, keys);
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  a.qk_norm = reader.Boolean("use_qk_norm", true);
  a.experts.count = reader.Dimension("num_local_experts");
  a.experts.per_token = reader.Dimension("num_experts_per_tok");
  a.experts.feed_forward = a.experts.shared_feed_forward = a.feed_forward;
  a.experts.every = reader.OptionalDimension("interleave_moe_layer_step").value_or(1);
  a.feed_forward = reader.OptionalDimension("intermediate_size_mlp").value_or(a.feed_forward);
  a.attention_chunk = reader.Has("attention_chunk_size")
                          ? reader.OptionalDimensionOrZero("attention_chunk_size")
                          : kChunk;
  a.full_attention_every =
      a.attention_chunk == 0
          ? 0
          : reader.OptionalDimension("no_rope_layer_interval").value_or(kFullEvery);
  // Values that transformers derives from the numbers above, and constants that affect only values.
  for (const char* key : {"moe_layers", "no_rope_layers", "layer_types", "attn_scale",
                          "floor_scale", "attn_temperature_tuning", "for_llm_compression"}) {
    reader.Accept(key);
  }
  ReadRouterLoss(reader);
  return a;
}

}  // namespace stepcast::formats
