#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"

// The config.json of a Hugging Face model repository, unchanged. `model_type` decides how the rest
// is read: gpt2, llama, mistral, qwen2 or mpt (as transformers has it, and as llm-foundry writes
// it). Keys that say nothing about dimensions are ignored, unknown ones too. What transformers
// fills in when a key is left out is filled in here, but the dimensions of a model must be there.
// Variants of a family that change its layers in ways that are not modelled are mistakes.
namespace stepcast::formats {

struct HuggingFaceConfig {
  std::string name;  // "_name_or_path", if it is there; else empty
  model::Architecture architecture;
  model::NumericalConstants constants{};
};

// `file` names the text in positions.
Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
