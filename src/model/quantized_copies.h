#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// The two copies of an operand of GEMMs in 8 or 4 bits. `rows` is for GEMMs whose inner dimension
// is along the rows, `columns` for GEMMs whose inner dimension is along the columns. In FP8, the
// second copy is the transpose of the first, because Hopper's FP8 GEMMs require operands that are
// contiguous along k. In MXFP8 and NVFP4, the copies have different scales (Transformer Engine,
// docs/features/low_precision_training).
struct QuantizedCopies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
