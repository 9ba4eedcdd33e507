#pragma once

#include <string_view>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/parameter_list.h"

// The parameters outside the blocks: parameters of towers (such as a vision encoder), of numeric
// inputs such as pixels, and of a diffusion model's condition.
namespace stepcast::model {

// The module names of a numeric input (ValueInput) of the model, or of an encoder before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// Appends a tower's tensors to `parameters`: one tensor for all layers, and one for all mergers.
// Every rank has the complete tensors.
void AppendTower(const Tower& tower, ParameterList& parameters);
// Appends the parameters of a numeric input: the linear layer or the convolutions, the table of
// positions, and the trained rows before all other rows. Every rank has the complete tensors.
void AppendInput(const ValueInput& input, const InputNames& names, ParameterList& parameters);
void AppendCondition(ParameterList& parameters);
void AppendText(ParameterList& parameters);
// Appends the parameters for modulation vectors. These are either a linear layer that reads the
// condition, or a table that is added to the vectors shared by all blocks.
void AppendModulation(std::string_view module, ParameterList& parameters);

}  // namespace stepcast::model
