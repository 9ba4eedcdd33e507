#include "src/formats/huggingface_mixtures.h"

#include <cstdint>

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

}  // namespace stepcast::formats
