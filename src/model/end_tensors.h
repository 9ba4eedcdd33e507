#pragma once

#include <string_view>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/parameter_list.h"

// The parameters outside the blocks: parameters of towers, of inputs other than words, and of a
// diffusion model's condition.
namespace stepcast::model {

// The module names of an input of numbers (ValueInput). The input belongs to the model or to an
// encoder before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// Appends a tower's tensors to `parameters`. One tensor contains the parameters of all layers, or
// of all mergers, of the tower. No rank divides these tensors.
void AppendTower(const Tower& tower, ParameterList& parameters);
// Appends the parameters of an input of numbers: the linear layer or the convolutions, the table of
// positions, and the trained rows that precede all other rows. Every rank has the complete tensors.
void AppendInput(const ValueInput& input, const InputNames& names, ParameterList& parameters);
void AppendCondition(ParameterList& parameters);
void AppendText(ParameterList& parameters);
// Appends the parameters that compute modulation vectors. These are either a linear layer of the
// condition, or a table that is added to the vectors that all blocks share.
void AppendModulation(std::string_view module, ParameterList& parameters);

}  // namespace stepcast::model
