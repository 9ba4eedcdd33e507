#pragma once

#include <string>
#include <string_view>

namespace stepcast::model {

// A family that is not in Family. It is known by name so that it is not reported as a misspelling
// of another one (phi, mpt).
struct OtherFamily {
  std::string_view name;
  std::string_view layers;   // the unmodeled features of its layers
  std::string_view nearest;  // a modeled family with all other features; empty: there is none
};

// A longer name must come before its prefix.
inline constexpr OtherFamily kOtherFamilies[] = {
    {"dbrx", "mixtures of experts between layer norms", ""},
    {"grok", "mixtures of experts whose gates are GELU", ""},
    {"gemma3n", "layers that share keys and values, and inputs of each layer", "gemma3"},
    {"phi3_v", "images beside text", "phi3"},
    {"phi4_multimodal", "images and sound beside text", "phi3"},
    {"phimoe", "mixtures of experts between layer norms", "mixtral"},
    {"falcon_h1", "state-space layers", ""},
    {"falcon_mamba", "state-space layers", ""},
    {"granitemoehybrid", "state-space layers", ""},
    {"opt", "feed-forward layers of ReLU", "gpt2"},
    {"bloom", "a norm behind the embedding", "mpt"},
    {"jamba", "state-space layers", ""},
    {"bart", "encoders and decoders", ""},
};

// `name`: a family, or a model or file whose name starts with it. Null: no such family.
inline const OtherFamily* OtherFamilyOf(std::string_view name) {
  for (const OtherFamily& other : kOtherFamilies) {
    if (name.starts_with(other.name)) return &other;
  }
  return nullptr;
}

// "falcon differs from gpt2 by attention and feed-forward side by side, which are not modelled".
inline std::string Difference(const OtherFamily& family) {
  std::string sentence(family.name);
  sentence += family.nearest.empty() ? " has " : " differs from ";
  if (!family.nearest.empty()) sentence.append(family.nearest).append(" by ");
  return sentence.append(family.layers).append(", which are not modelled");
}

}  // namespace stepcast::model
