#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/model/layer_tape.h"

namespace stepcast::model {

// A region of linear layers that share one input and are divided by columns
// (LayerOperators::EnterColumns). In backward, the ranks sum the gradients of the shared input
// while the weights' gradients are computed.
struct ColumnRegion {
  // The values that forward products read: the whole input, its parts by tokens as they arrive, or
  // a quantized copy (`quantized`).
  std::vector<LayerTape::Piece> inputs;
  bool quantized = false;
  // Values that the weight-gradient products read: the region's input, or a part of the input.
  std::vector<LayerTape::Value> kept;
  // Prepares the region's backward. It must be called before the region's first backward kernel.
  std::function<void()> begin_backward;
  // The functions that run the weight-gradient product of each layer, in the order of backward. The
  // argument is the region's input if the input was gathered again, otherwise none.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // the quantized copy, for weight gradients
};

// The linear layer that ends a divided region (LayerOperators::LeaveRows).
struct RowRegion {
  // The pieces of the output, if the ranks sum the product's result piece by piece. `made` is
  // called with the index of a piece after the piece is written.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // The gathered gradient of the output, which backward reads: in pieces, or as a quantized copy
  // (`quantized`). Empty: backward uses the gradient on the tape.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
