#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"

// The config.json of a Hugging Face model repository, unchanged. `model_type` decides how the rest
// is read: bert, gpt2, llama, megatron-bert, mistral, mpt (as transformers has it, and as
// llm-foundry writes it), nemotron or qwen2, in the spelling of transformers 4 and 5. Of a
// multimodal model whose `text_config` is of such a type the text model is read. What transformers
// fills in when a key is left out is filled in here, but the dimensions of a model must be there.
// No key is passed over in silence but those that are known to change neither shapes nor time
// (huggingface_keys.h).
namespace stepcast::formats {

struct HuggingFaceConfig {
  std::string name;  // "_name_or_path", if it is there; else empty
  model::Architecture architecture;
  model::NumericalConstants constants{};
  // What the forecast makes of keys that it does not follow, and keys that are not known: sentences
  // without full stop.
  std::vector<std::string> warnings{};
};

// `file` names the text in positions.
Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file);

}  // namespace stepcast::formats
