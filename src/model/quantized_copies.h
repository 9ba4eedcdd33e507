#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// The two copies of an operand of products in 8 or 4 bits. `rows` is for products along rows,
// `columns` for products along the operand's other side. In FP8, the second copy is the transposed
// first copy, because Hopper multiplies FP8 only if both operands run along k. In MXFP8 and NVFP4,
// the two copies have different scales (Transformer Engine, docs/features/low_precision_training).
struct QuantizedCopies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
