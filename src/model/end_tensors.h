#pragma once

#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/transformer_tensors.h"

// The parameters outside the blocks: those of towers (such as a vision encoder), of numeric inputs
// such as pixels, and of a diffusion model's condition.
namespace stepcast::model {

// The module names of a numeric input (ValueInput) of the model, or of an encoder before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// Appends a tower's tensors to `parameters`: one tensor for all layers, and one for all mergers.
// Every rank has the complete tensors.
void AppendTower(const Architecture& a, const Tower& tower,
                 std::vector<ModuleParameter>& parameters);
// Appends the parameters of a numeric input: the linear layer or the convolutions, the table of
// positions, and the trained rows before all other rows. Every rank has the complete tensors.
void AppendInput(const Architecture& a, const ValueInput& input, const InputNames& names,
                 std::vector<ModuleParameter>& parameters);
void AppendCondition(const Architecture& a, std::vector<ModuleParameter>& parameters);
void AppendText(const Architecture& a, std::vector<ModuleParameter>& parameters);
// Appends the parameters that compute modulation vectors: either a linear layer that reads the
// condition, or a table that is added to the vectors that all blocks share.
void AppendModulation(const Architecture& a, const Modulation& modulation, std::string_view module,
                      std::vector<ModuleParameter>& parameters);

}  // namespace stepcast::model
