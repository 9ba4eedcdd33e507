#pragma once

#include <functional>
#include <string_view>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"
#include "src/model/module_names.h"

// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556): its small heads score all keys
// before each query, and the best are chosen. Every rank of a tensor-parallel group has the whole
// of it (Megatron-Core, megatron/core/transformer/experimental_attention_variant/dsa.py).
//
// Scores are read once to choose from and not kept; what is kept are the numbers of the chosen
// keys. The indexer learns from attention over the chosen keys alone, so its backward has as many
// pairs as attention's. Its products also make the gradient of their input, which frameworks leave
// out: a little too much.
namespace stepcast::model {

class IndexerOperators {
 public:
  using Find = std::function<ModulePositions(std::string_view module)>;
  // All must outlive the tape's Finish.
  IndexerOperators(LayerOperators& operators, const Architecture& architecture,
                   const ModuleNames& names, Find find);

  // Chooses keys. `x`: the block's normalised input; `query_source`: what queries are made of.
  // Both are the rank's part of the tokens.
  void Choose(const Operand& x, const Operand& query_source);
  // An indexer that is there and does not run: nothing, but gradients that are zero.
  void Idle();

 private:
  using Value = LayerTape::Value;
  ModulePositions Whole(std::string_view module) const;

  LayerOperators& operators_;
  LayerTape& tape_;
  const Architecture& a_;
  const ModuleNames& names_;
  const Find find_;
};

}  // namespace stepcast::model
