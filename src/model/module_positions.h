#pragma once

#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/transformer_tensors.h"

// The positions of a module's parameters among the parameters of a layer.
namespace stepcast::model {

// Calls `visit(of, position)` for each parameter of the module. Positions include only trained
// parameters; the position of a frozen parameter is -1.
template <typename Visit>
void ForEachOf(const std::vector<ModuleParameter>& parameters, std::string_view module,
               const Visit& visit) {
  int position = 0;
  for (const ModuleParameter& parameter : parameters) {
    if (parameter.module == module) visit(parameter.of, parameter.frozen ? -1 : position);
    if (!parameter.frozen) ++position;
  }
}

// Returns the positions of the module's parameters. The module must have a weight.
ModulePositions Find(const std::vector<ModuleParameter>& parameters, std::string_view module);
// Returns the positions of a module that may have no parameters, such as a norm without weights or
// a part of another module's linear layer.
ModulePositions FindIfAny(const std::vector<ModuleParameter>& parameters, std::string_view module);
// Returns the position of the module's bias.
int FindBias(const std::vector<ModuleParameter>& parameters, std::string_view module);

}  // namespace stepcast::model
