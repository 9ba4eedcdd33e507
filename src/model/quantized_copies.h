#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// An operand of products in 8 or 4 bits: by rows, and for the product that runs along its other
// side. In FP8 that is the same, transposed, since Hopper multiplies FP8 only where both operands
// run along k; in MXFP8 and NVFP4 it has scales of its own (Transformer Engine,
// docs/features/low_precision_training).
struct QuantizedCopies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
