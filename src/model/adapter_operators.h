#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/lora.h"

// Adapters of low rank beside linear layers (lora.h), as modules of their own, in the type of
// activations: (x A) B, times a constant, added to what the layer makes. Dropout applies to what
// the adapter takes.
//
// With tensor parallelism as NVIDIA/NeMo has them (nemo/collections/llm/peft/utils.py,
// ParallelLinearAdapter): the columns of B are divided; of A the columns, whose parts are gathered,
// or, beside a layer that is divided by rows, the rows, whose products are summed up. Its products
// do not know sequence parallelism: what they take is gathered before, or they share what the layer
// has gathered, and what they make becomes parts of the tokens behind them.
namespace stepcast::model {

struct AdapterModule {
  std::string_view name;  // of the linear layer
  ModulePositions a{}, b{};
};

class AdapterOperators {
 public:
  AdapterOperators(const WorkOptions& options, const Lora& lora, LayerTape& tape);

  // Beside layers that are divided by columns: adds to what they make of `x`, which is `whole` with
  // tensor parallelism.
  std::vector<Operand> AddColumns(const Operand& x, const Operand& whole,
                                  const AdapterModule& adapter, std::vector<Operand> ys);
  // Beside one that is divided by rows.
  Operand AddRows(const Operand& x, const AdapterModule& adapter, const Operand& y);

 private:
  std::string_view Name(const AdapterModule& adapter, std::string_view suffix);
  Operand Dropped(const Operand& x, const AdapterModule& adapter);

  const WorkOptions options_;
  const Lora& lora_;
  LayerOperators products_;  // without sequence parallelism
  LayerOperators tokens_;    // with it: gathers tokens and parts them
  std::deque<std::string> names_;
};

}  // namespace stepcast::model
