#pragma once

#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/document.h"

// Reads a transformer that a model file describes by its dimensions. The keys have Hugging Face's
// names.
namespace stepcast::scenario {

// The allowed soft-caps for attention scores and logits. 0: no cap.
inline constexpr DecimalRange kCap = {0, 1e6};
// The allowed widths of layers. 0: there is no such layer.
inline constexpr IntegerRange kWidth = {1, model::kMostWidth};
inline constexpr IntegerRange kWidthOrNone = {0, model::kMostWidth};

// Returns the architecture of a model file. If the file has mistakes, some dimensions may be 1, and
// the family may be missing.
model::Architecture ReadDimensions(MappingReader& reader);

// Reads model::Family::typical, which may have the keys of a model file and features that a model
// file cannot set.
void ReadTypical(MappingReader& reader, model::Architecture& architecture);

// Returns the numerical constants of a model file, like LoadModelConstants. If the file omits a
// constant, the family's constant is used.
model::NumericalConstants ReadConstants(MappingReader& reader,
                                        const model::Architecture& architecture);
// Reads the numerical constants and reports constants that do not match the model.
void CheckConstants(MappingReader& reader, const model::Architecture& architecture);

}  // namespace stepcast::scenario
