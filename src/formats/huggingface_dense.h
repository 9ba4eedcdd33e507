#pragma once

#include "src/formats/huggingface_decoder.h"
#include "src/formats/huggingface_reader.h"
#include "src/model/architecture.h"

// The config.json of dense decoders that differ from Llama's in norms, windows or products, one
// function for each model_type.
namespace stepcast::formats {

model::Architecture ReadGemma1(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm4(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadStarcoder2(HuggingFaceReader& reader, KeysOfFields& keys);
// Llama's layers under other names.
model::Architecture ReadErnie(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGranite(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSeedOss(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSmolLm3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmo2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi3(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
