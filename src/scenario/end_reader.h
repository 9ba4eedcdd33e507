#pragma once

#include <map>

#include "src/model/architecture.h"
#include "src/scenario/document.h"

// Keys of a model with described blocks that describe what comes before and after them. Mistakes
// are model.impossible and those of documents.
namespace stepcast::scenario {

// The kinds of blocks by their letters.
using Letters = std::map<char, int>;

// Rows of numbers instead of words; nothing if the key is absent.
model::ValueInput ReadValueInput(MappingReader& reader);
// `condition` of a diffusion model, and the vectors that it makes for blocks and head.
void ReadCondition(MappingReader& reader, model::Architecture& a);
// `text`: rows that a frozen text encoder has made, before the other rows or for cross-attention.
void ReadText(MappingReader& reader, model::Architecture& a);
// `output`: what the head predicts; words if the key is absent.
model::Prediction ReadPrediction(MappingReader& reader);
// Reads an encoder before the decoder, and puts its blocks before the pattern's. Cross-attention
// reads it.
void ReadEncoder(MappingReader& reader, const Letters& letters, model::Architecture& a);
// `towers`: image encoders. A tower without layers is ignored.
void ReadTowers(MappingReader& reader, model::Architecture& a);

}  // namespace stepcast::scenario
