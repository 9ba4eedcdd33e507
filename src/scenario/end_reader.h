#pragma once

#include <map>

#include "src/model/architecture.h"
#include "src/scenario/document.h"

// Reads the layers before and after the blocks, for a model file that describes blocks. Errors:
// model.impossible, and the errors of document.h.
namespace stepcast::scenario {

// A map from the letter of each kind of block to the kind's index.
using Letters = std::map<char, int>;

// Reads the description of an input that consists of rows of numbers. If the key is missing, the
// result is empty, and the model reads words.
model::ValueInput ReadValueInput(MappingReader& reader);
// Reads the key `condition`: a diffusion model's condition, and the vectors that blocks and head
// compute from it.
void ReadCondition(MappingReader& reader, model::Architecture& a);
// Reads the key `text`: rows from a frozen text encoder, which precede all other rows or are read
// by cross-attention.
void ReadText(MappingReader& reader, model::Architecture& a);
// Reads the key `output`, the prediction of the head. If the key is missing, the head predicts
// words.
model::Prediction ReadPrediction(MappingReader& reader);
// Reads an encoder before a decoder, and inserts the encoder's blocks before the pattern's blocks.
// Cross-attention reads the encoder's output.
void ReadEncoder(MappingReader& reader, const Letters& letters, model::Architecture& a);
// Reads the key `towers`, the image encoders. A tower without layers is ignored.
void ReadTowers(MappingReader& reader, model::Architecture& a);

}  // namespace stepcast::scenario
