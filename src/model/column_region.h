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
  // Must be called before the region's first backward kernel.
  std::function<void()> begin_backward;
  // One function per layer, in the order of backward, that runs the layer's weight-gradient
  // product. The argument is the region's input if it was gathered again, otherwise none.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // its quantized copy for weight gradients
};

// The linear layer that ends a divided region (LayerOperators::LeaveRows).
struct RowRegion {
  // The pieces of the output, if the ranks sum the product's result piece by piece. `made` is
  // called after each piece, with the index of the piece.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // The gathered gradient of the output in backward: in pieces, or as a quantized copy
  // (`quantized`). Empty: the gradient on the tape is used.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
