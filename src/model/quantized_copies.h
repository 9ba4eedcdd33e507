#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// The copies of an operand of products in 8 or 4 bits: by rows, and for the product along its other
// side. In FP8 the second is the first transposed, because Hopper multiplies FP8 only if both
// operands run along k. In MXFP8 and NVFP4 it has different scales (Transformer Engine,
// docs/features/low_precision_training).
struct QuantizedCopies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
