#pragma once

#include <string>
#include <string_view>

namespace stepcast::model {

// A family that has no place in Family: known by name, so that it is not taken for a slip in
// writing another's (phi, mpt).
struct OtherFamily {
  std::string_view name;
  std::string_view layers;   // what its layers have that is not modelled
  std::string_view nearest;  // a family that is modelled and has all the rest; empty: there is none
};

// A name that begins with another stands before it.
inline constexpr OtherFamily kOtherFamilies[] = {
    {"deepseek_v32", "attention to tokens that an indexer chooses", "deepseek"},
    {"kimi_linear", "linear attention", "deepseek"},
    {"dbrx", "mixtures of experts", ""},
    {"grok", "mixtures of experts", ""},
    {"llama4", "mixtures of experts and layers without rotary positions", "llama"},
    {"qwen2_moe", "mixtures of experts", "qwen2"},
    {"qwen3_next", "linear attention and mixtures of experts", ""},
    {"qwen3_5", "linear attention and mixtures of experts", ""},
    {"glm4_moe", "mixtures of experts and rotary positions on half of each head", ""},
    {"gemma3",
     "norms behind attention and feed-forward, norms of queries and keys, and layers "
     "with and without a window",
     "llama"},
    {"gemma2",
     "norms behind attention and feed-forward, capped scores, and layers with and "
     "without a window",
     "llama"},
    {"gemma", "a gate of GeLU and embeddings times a constant", "llama"},
    {"phi3", "projections of queries, keys and values in one tensor", "llama"},
    {"phi", "attention and feed-forward side by side", "gpt2"},
    {"olmo2", "norms behind attention and feed-forward, and of queries and keys", "llama"},
    {"gptj", "attention and feed-forward side by side", "gpt2"},
    {"gpt_neox", "attention and feed-forward side by side", "gpt2"},
    {"falcon", "attention and feed-forward side by side", "gpt2"},
    {"cohere", "attention and feed-forward side by side", "llama"},
    {"opt", "feed-forward layers of ReLU", "gpt2"},
    {"bloom", "a norm behind the embedding", "mpt"},
    {"nemotron_h", "state-space layers", "nemotron"},
    {"jamba", "state-space layers", ""},
    {"mamba", "state-space layers", ""},
    {"bart", "encoders and decoders", ""},
    {"t5", "encoders and decoders", ""},
};

// `name`: of a family, or of a model or file whose name begins with it. Null: no such family.
inline const OtherFamily* OtherFamilyOf(std::string_view name) {
  for (const OtherFamily& other : kOtherFamilies) {
    if (name.starts_with(other.name)) return &other;
  }
  return nullptr;
}

// "phi3 differs from llama by projections of queries, keys and values in one tensor, which are not
// modelled".
inline std::string Difference(const OtherFamily& family) {
  std::string sentence(family.name);
  sentence += family.nearest.empty() ? " has " : " differs from ";
  if (!family.nearest.empty()) sentence.append(family.nearest).append(" by ");
  return sentence.append(family.layers).append(", which are not modelled");
}

}  // namespace stepcast::model
