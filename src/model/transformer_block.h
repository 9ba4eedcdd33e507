#pragma once

#include <memory>
#include <vector>

#include "src/model/architecture.h"
#include "src/model/layer_operators.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/layer_work.h"
#include "src/model/transformer_tensors.h"

namespace stepcast::model {

// The operators of a transformer's block, recorded on a tape: mixer, cross-attention and
// feed-forward layer, with their norms and residuals.
class TransformerBlock {
 public:
  // `parameters` are the parameters of the layer that contains the block. All arguments and the
  // block must outlive the tape's Finish.
  TransformerBlock(const Architecture& architecture, const WorkOptions& options,
                   const LayerVariant& variant, const std::vector<ModuleParameter>& parameters,
                   LayerTape& tape, LayerOperators& operators);
  ~TransformerBlock();

  Operand Run(const Operand& x);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace stepcast::model
