#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {

// A tower's layers, mergers, and the rows that replace words'. One tensor holds a module's
// parameters of all layers, so the first layer's backward, which comes last, completes its
// gradient. A frozen tower runs forward only and keeps nothing. All arguments and the object must
// outlive the tape's Finish.
class TowerWork {
 public:
  TowerWork(const Architecture& a, const Tower& tower, const WorkOptions& options,
            const std::vector<ModuleParameter>& parameters, LayerTape& tape);

  // Returns rows of the decoder's width. Call once.
  Operand Run();

 private:
  // The tower's options, with attention within `length` patches; 0: within all.
  static WorkOptions OptionsOf(const Tower& tower, WorkOptions options, std::int64_t length);
  Operand Rows();
  // `completes`: whether the module's gradient is complete after this use.
  ModulePositions Of(std::string_view module, bool completes) const;
  Operand Norm(const Operand& x, std::string_view module, bool completes);
  Operand Layer(const Operand& x, std::int64_t layer);

  const Architecture& a_;
  const Tower& tower_;
  const WorkOptions options_;
  const ModuleNames& names_;
  const std::vector<ModuleParameter>& parameters_;
  LayerTape& tape_;
  LayerOperators operators_, within_windows_;
};

}  // namespace stepcast::model
