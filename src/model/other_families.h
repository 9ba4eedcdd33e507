#pragma once

#include <string_view>

namespace stepcast::model {

// What the layers of a family are that has no place in Family: known by name, so that it is not
// taken for a slip in writing another's (mixtral, mistral). Empty: no such family. `name`: of a
// family, or of a model or file whose name begins with it.
constexpr std::string_view OtherLayersOf(std::string_view name) {
  constexpr struct {
    std::string_view family, layers;
  } kFamilies[] = {
      {"mixtral", "mixtures of experts"},   {"deepseek", "mixtures of experts"},
      {"dbrx", "mixtures of experts"},      {"grok", "mixtures of experts"},
      {"qwen2_moe", "mixtures of experts"}, {"qwen3_moe", "mixtures of experts"},
      {"jamba", "state-space layers"},      {"mamba", "state-space layers"},
      {"t5", "encoders and decoders"},
  };
  for (const auto& other : kFamilies) {
    if (name.starts_with(other.family)) return other.layers;
  }
  return {};
}

}  // namespace stepcast::model
