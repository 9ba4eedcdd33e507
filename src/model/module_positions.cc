#include "src/model/module_positions.h"

#include "src/base/check.h"

namespace stepcast::model {

ModulePositions Find(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  using Of = ModuleParameter::Of;
  ModulePositions positions;
  ForEachOf(parameters, module, [&](Of of, int position) {
    if (of == Of::kWeight) {
      positions.weight = position;
      positions.frozen = position < 0;
    } else if (of == Of::kBias) {
      positions.bias = position;
      positions.frozen_bias = position < 0;
    }
  });
  STEPCAST_CHECK(positions.weight >= 0 || positions.frozen, "a module without a weight");
  return positions;
}

ModulePositions FindIfAny(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  for (const ModuleParameter& parameter : parameters) {
    if (parameter.module == module) return Find(parameters, module);
  }
  return {.frozen = true};
}

int FindBias(const std::vector<ModuleParameter>& parameters, std::string_view module) {
  int bias = -1;
  ForEachOf(parameters, module, [&](ModuleParameter::Of of, int position) {
    if (of == ModuleParameter::Of::kBias) bias = position;
  });
  STEPCAST_CHECK(bias >= 0, "a module without a bias");
  return bias;
}

}  // namespace stepcast::model
