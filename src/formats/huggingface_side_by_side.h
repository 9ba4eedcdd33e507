#pragma once

#include "src/formats/huggingface_decoder.h"
#include "src/formats/huggingface_reader.h"
#include "src/model/architecture.h"

// The config.json of decoders whose attention and feed-forward take the same input, one function
// for each model_type.
namespace stepcast::formats {

model::Architecture ReadGptj(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGptNeox(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadFalcon(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere2(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
