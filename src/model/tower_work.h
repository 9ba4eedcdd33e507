#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {

// The work of a tower: its layers, its mergers, and the replacement of word rows. Each module has
// one tensor for all layers, whose gradient is complete after the first layer's backward. A frozen
// tower runs only forward and keeps no values. All arguments and the object must outlive the tape's
// Finish.
class TowerWork {
 public:
  TowerWork(const Architecture& a, const Tower& tower, const WorkOptions& options,
            const std::vector<ModuleParameter>& parameters, LayerTape& tape);

  // Runs the tower. Returns rows of the decoder's width. Call once.
  Operand Run();

 private:
  // Returns the options of a tower in which patches attend within groups of `length` patches. If
  // `length` is 0, patches attend within the sequence.
  static WorkOptions OptionsOf(const Tower& tower, WorkOptions options, std::int64_t length);
  Operand Rows();
  // Returns the positions of a module's parameters. `completes`: the module's gradient is complete
  // after this use.
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
