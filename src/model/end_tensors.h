#pragma once

#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/transformer_tensors.h"

// The parameters of towers, of inputs other than words, and of the products and tables for a
// diffusion model's condition.
namespace stepcast::model {

// The module names of an input of numbers (ValueInput), which is either the model's input or the
// input of an encoder before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// Appends a tower's tensors. Each tensor covers all layers or all mergers of the tower and is whole
// on every rank.
void AppendTower(const Architecture& a, const Tower& tower,
                 std::vector<ModuleParameter>& parameters);
// Appends the product or convolutions of rows of numbers, the table of positions that is added, and
// the trained rows that are put first. All are whole on every rank.
void AppendInput(const Architecture& a, const ValueInput& input, const InputNames& names,
                 std::vector<ModuleParameter>& parameters);
void AppendCondition(const Architecture& a, std::vector<ModuleParameter>& parameters);
void AppendText(const Architecture& a, std::vector<ModuleParameter>& parameters);
// Appends either the product of the condition, or the table that is added to the vectors shared by
// all blocks.
void AppendModulation(const Architecture& a, const Modulation& modulation, std::string_view module,
                      std::vector<ModuleParameter>& parameters);

}  // namespace stepcast::model
