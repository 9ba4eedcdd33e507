#pragma once

#include "src/model/layer_tape.h"

namespace stepcast::model {

// An operand of FP8 products, one byte an element: by rows, and transposed for the product that
// runs along its other side, since Hopper multiplies FP8 only where both operands run along k
// (Transformer Engine, docs/features/low_precision_training).
struct Fp8Copies {
  LayerTape::Value rows = -1, columns = -1;
};

}  // namespace stepcast::model
