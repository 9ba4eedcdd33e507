#pragma once

#include <string_view>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/transformer_tensors.h"

// The parameters of towers, of inputs other than words, and of what a condition makes.
namespace stepcast::model {

// Module names of an input of numbers: the model's, or the encoder's before a decoder.
struct InputNames {
  std::string_view product, halving, positions, class_rows;
};
InputNames InputNamesOf(const ModuleNames& names, bool of_encoder);

// A tower's tensors, each covering all its layers or mergers, whole on every rank.
void AppendTower(const Architecture& a, const Tower& tower,
                 std::vector<ModuleParameter>& parameters);
// The product or convolutions of rows of numbers, and the rows that are added to or put before
// them. All are whole on every rank.
void AppendInput(const Architecture& a, const ValueInput& input, const InputNames& names,
                 std::vector<ModuleParameter>& parameters);
void AppendCondition(const Architecture& a, std::vector<ModuleParameter>& parameters);
void AppendText(const Architecture& a, std::vector<ModuleParameter>& parameters);
// The product of the condition, or the table that is added to what all blocks share.
void AppendModulation(const Architecture& a, const Modulation& modulation, std::string_view module,
                      std::vector<ModuleParameter>& parameters);

}  // namespace stepcast::model
