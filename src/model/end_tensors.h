#pragma once

#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/transformer_tensors.h"

// The parameters outside the blocks: those of towers, of inputs other than words, and of a
// diffusion model's condition.
namespace stepcast::model {

// The module names of an input of numbers (ValueInput). This is either the model's input or the
// input of an encoder before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// Appends a tower's tensors to `parameters`. Each tensor covers all layers or all mergers of the
// tower, and every rank has the whole tensor.
void AppendTower(const Architecture& a, const Tower& tower,
                 std::vector<ModuleParameter>& parameters);
// Appends the parameters of an input of numbers: the product or convolutions, the table of
// positions, and the trained rows that precede the others. Every rank has the whole of each tensor.
void AppendInput(const Architecture& a, const ValueInput& input, const InputNames& names,
                 std::vector<ModuleParameter>& parameters);
void AppendCondition(const Architecture& a, std::vector<ModuleParameter>& parameters);
void AppendText(const Architecture& a, std::vector<ModuleParameter>& parameters);
// Appends the parameters that compute modulation vectors. They are either the product of the
// condition, or the table that is added to the vectors shared by all blocks.
void AppendModulation(const Architecture& a, const Modulation& modulation, std::string_view module,
                      std::vector<ModuleParameter>& parameters);

}  // namespace stepcast::model
