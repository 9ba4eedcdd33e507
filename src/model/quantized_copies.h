#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// The two copies of an operand of GEMMs in 8 or 4 bits. `rows` is for GEMMs whose inner dimension
// runs along the rows, `columns` for GEMMs whose inner dimension runs along the columns. In FP8,
// the second copy is the transposed first copy, because Hopper's FP8 GEMMs require both operands to
// be contiguous along k. In MXFP8 and NVFP4, the two copies have different scales (Transformer
// Engine, docs/features/low_precision_training).
struct QuantizedCopies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
