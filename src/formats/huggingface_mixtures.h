#pragma once

#include "src/formats/huggingface_decoder.h"
#include "src/formats/huggingface_reader.h"
#include "src/model/architecture.h"

// The config.json of mixtures of experts, one function for each model_type.
namespace stepcast::formats {

model::Architecture ReadMixtral(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadQwen3Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadDeepseekV2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadDeepseekV3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGptOss(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm4Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadLlama4(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadErnieMoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGraniteMoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadMiniMaxM2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadQwen2Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadKimiK2(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
