#include "src/model/architecture.h"

#include <algorithm>
#include <cstddef>

namespace stepcast::model {

const Architecture* BiasedByDistance(const Architecture& architecture, bool of_encoder) {
  for (std::size_t block = 0; block < architecture.pattern.size(); ++block) {
    const bool encodes = static_cast<std::int64_t>(block) < architecture.encoder.layers;
    const Architecture& kind =
        architecture.kinds[static_cast<std::size_t>(architecture.pattern[block])];
    if (encodes == of_encoder && kind.distance_buckets > 0) return &kind;
  }
  return nullptr;
}

bool AttendsBothWays(const Architecture& architecture) {
  if (TraitsOf(architecture).encoder) return true;
  if (architecture.pattern.empty()) return false;
  const auto first = architecture.pattern.begin() + architecture.encoder.layers;
  return std::all_of(first, architecture.pattern.end(), [&architecture](int kind) {
    return architecture.kinds[static_cast<std::size_t>(kind)].attends_both_ways;
  });
}

Architecture OfKind(const Architecture& architecture, int kind) {
  if (kind < 0 || architecture.kinds.empty()) return architecture;
  Architecture block = architecture.kinds[static_cast<std::size_t>(kind)];
  block.lora = architecture.lora;
  return block;
}

int KindOfBlock(const Architecture& architecture, std::int64_t block) {
  if (architecture.kinds.empty()) return -1;
  const auto last = static_cast<std::int64_t>(architecture.pattern.size()) - 1;
  if (block > last && architecture.further_kind >= 0) return architecture.further_kind;
  return architecture.pattern[static_cast<std::size_t>(std::min(block, last))];
}

std::int64_t ProductWeightsOfBlock(const Architecture& a) {
  const std::int64_t layers_of_feed_forward = IsGated(a.activator) ? 3 : 2;
  return (4 * a.heads * a.head_size + layers_of_feed_forward * a.feed_forward) * a.hidden;
}

std::int64_t ProductWeightsOfHead(const Architecture& a) { return a.vocabulary * a.hidden; }

std::string_view Name(Mixer mixer) {
  constexpr std::string_view kNames[] = {
      "attention", "the gated delta rule", "Mamba-2", "short convolutions",
      "Mamba-1",   "lightning attention",  "no mixer"};
  return kNames[static_cast<std::size_t>(mixer)];
}

const char* Name(Normalization normalization) {
  return normalization == Normalization::kLayerNorm ? "layernorm" : "rmsnorm";
}

const char* Name(Activator activator) {
  constexpr const char* kNames[] = {"gelu", "swiglu", "geglu", "squared_relu", "relu", "xielu"};
  return kNames[static_cast<std::size_t>(activator)];
}

const char* Name(Position position) {
  constexpr const char* kNames[] = {"learned", "rotary", "alibi", "none"};
  return kNames[static_cast<std::size_t>(position)];
}

}  // namespace stepcast::model
