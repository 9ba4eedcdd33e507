#include "src/formats/huggingface_mixtures.h"

#include <cstdint>
#include <optional>

#include "src/formats/json_object.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using Reader = HuggingFaceReader;

// What training adds to a router, and the forecast does not.
void ReadRouterLoss(Reader& reader) {
  if (reader.Boolean("output_router_logits", false)) {
    reader.Warn("output_router_logits", "the forecast leaves out the router's auxiliary loss");
  }
  if (reader.Number("router_jitter_noise", 0) > 0) {
    reader.Warn("router_jitter_noise", "the forecast leaves out noise on what the router takes");
  }
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

// Qwen3MoeConfig. `intermediate_size` is that of blocks without experts.
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
  if (const JsonValue* dense = reader.Find("mlp_only_layers");
      dense != nullptr && dense->elements > 0) {
    reader.Refuse("mlp_only_layers", "dense layers in places of their own are not modelled",
                  "take the key out if all layers have experts; a model file has "
                  "first_k_dense_replace and decoder_sparse_step");
  }
  ReadRouterLoss(reader);
  return a;
}

}  // namespace stepcast::formats
