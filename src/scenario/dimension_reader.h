#pragma once

#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/document.h"

// A transformer by its dimensions: the keys of a model file, with Hugging Face's names.
namespace stepcast::scenario {

// The architecture of a model file. After mistakes some dimensions are 1, and the family may be
// missing.
model::Architecture ReadDimensions(MappingReader& reader);

// The features of a family's released models, under the same keys, and features that model files
// leave to the family.
void ReadTypical(MappingReader& reader, model::Architecture& architecture);

// The numerical constants of a model file, or of its family. LoadModelConstants returns them.
model::NumericalConstants ReadConstants(MappingReader& reader,
                                        const model::Architecture& architecture);
// Checks them with the rest of the model.
void CheckConstants(MappingReader& reader, const model::Architecture& architecture);

}  // namespace stepcast::scenario
