#pragma once

#include <map>

#include "src/model/architecture.h"
#include "src/scenario/document.h"

// Reads the keys of a model with described blocks that describe what precedes and follows the
// blocks. Mistakes are model.impossible and those of documents.
namespace stepcast::scenario {

// Maps the letter of each kind of block to the index of the kind.
using Letters = std::map<char, int>;

// Reads the description of an input that consists of rows of numbers instead of words. If the key
// is absent, the result describes no such input.
model::ValueInput ReadValueInput(MappingReader& reader);
// Reads `condition`: the condition of a diffusion model, and the vectors that it makes for blocks
// and head.
void ReadCondition(MappingReader& reader, model::Architecture& a);
// Reads `text`: rows made by a frozen text encoder, which precede the other rows or are used by
// cross-attention.
void ReadText(MappingReader& reader, model::Architecture& a);
// Reads `output`: what the head predicts. If the key is absent, the head predicts words.
model::Prediction ReadPrediction(MappingReader& reader);
// Reads an encoder that precedes the decoder, and inserts the encoder's blocks before those of the
// pattern. Cross-attention reads the encoder's output.
void ReadEncoder(MappingReader& reader, const Letters& letters, model::Architecture& a);
// Reads `towers`, the image encoders. A tower without layers is ignored.
void ReadTowers(MappingReader& reader, model::Architecture& a);

}  // namespace stepcast::scenario
