#pragma once

#include <map>

#include "src/model/architecture.h"
#include "src/scenario/document.h"

// Reads the layers before and after the blocks, for a model file that describes blocks. Errors:
// model.impossible, and those of document.h.
namespace stepcast::scenario {

// A map from the letter of each kind of block to the kind's index.
using Letters = std::map<char, int>;

// Reads the description of an input that consists of rows of numbers instead of words. If the key
// is missing, the result is empty: the model reads words.
model::ValueInput ReadValueInput(MappingReader& reader);
// Reads the key `condition`: the condition of a diffusion model, and the vectors that the blocks
// and the head compute from it.
void ReadCondition(MappingReader& reader, model::Architecture& a);
// Reads the key `text`: rows of a frozen text encoder. The rows precede all other rows, or
// cross-attention reads them.
void ReadText(MappingReader& reader, model::Architecture& a);
// Reads the key `output`, which defines the prediction of the head. If the key is missing, the head
// predicts words.
model::Prediction ReadPrediction(MappingReader& reader);
// Reads an encoder that precedes the decoder. Inserts the encoder's blocks before the blocks of the
// pattern. Cross-attention reads the encoder's output.
void ReadEncoder(MappingReader& reader, const Letters& letters, model::Architecture& a);
// Reads the key `towers`, the image encoders. A tower without layers is ignored.
void ReadTowers(MappingReader& reader, model::Architecture& a);

}  // namespace stepcast::scenario
