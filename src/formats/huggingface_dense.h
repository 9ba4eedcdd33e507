#pragma once

#include "src/formats/huggingface_decoder.h"
#include "src/formats/huggingface_reader.h"
#include "src/model/architecture.h"

// The config.json of dense decoders that differ from Llama's in norms, windows or products, one
// function for each model_type.
namespace stepcast::formats {

model::Architecture ReadGemma2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmo2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi3(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
