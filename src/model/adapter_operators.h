#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"
#include "src/model/lora.h"

// Low-rank adapters (lora.h) of linear layers. An adapter adds (x A) B, multiplied by a constant,
// to the layer's output, and applies dropout to its input. The adapter computes in the data type of
// the activations.
//
// With tensor parallelism, adapters follow NVIDIA/NeMo (nemo/collections/llm/peft/utils.py,
// ParallelLinearAdapter). The columns of B are divided among ranks. If the layer is divided by
// columns, the columns of A are divided too, and the ranks gather x A. If the layer is divided by
// rows, the rows of A are divided, and the ranks sum x A. The adapter's GEMMs read the layer's
// gathered input and do not use sequence parallelism.
namespace stepcast::model {

struct AdapterModule {
  std::string_view name;  // name of the linear layer
  ModulePositions a{}, b{};
};

class AdapterOperators {
 public:
  AdapterOperators(const WorkOptions& options, const Lora& lora, LayerTape& tape);

  // Adds the adapter's output for `x` to the outputs `ys` of layers that are divided by columns.
  // `whole` is the input `x` for all tokens, after an all-gather over the tensor-parallel ranks.
  std::vector<Operand> AddColumns(const Operand& x, const Operand& whole,
                                  const AdapterModule& adapter, std::vector<Operand> ys);
  // Adds the adapter's output for `x` to the output `y` of a layer that is divided by rows.
  Operand AddRows(const Operand& x, const AdapterModule& adapter, const Operand& y);

 private:
  std::string_view Name(const AdapterModule& adapter, std::string_view suffix);
  Operand Dropped(const Operand& x, const AdapterModule& adapter);

  const WorkOptions options_;
  const Lora& lora_;
  LayerOperators products_;  // operators without sequence parallelism
  LayerOperators tokens_;    // operators with sequence parallelism, which gather and split tokens
  std::deque<std::string> names_;
};

}  // namespace stepcast::model
