#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/model/layer_tape.h"

namespace stepcast::model {

// Linear layers that share one input and are divided by columns (LayerOperators::EnterColumns). In
// backward, the gradients of their input are summed over the ranks while those of their weights are
// computed.
struct ColumnRegion {
  // The input of forward products, if it is not the operand itself: parts of the tokens as they
  // arrive, or a quantized copy.
  std::vector<LayerTape::Piece> inputs;
  bool quantized = false;
  // Values that weight gradients need: the input, or a part of it.
  std::vector<LayerTape::Value> kept;
  // Called before the first backward kernel of the region.
  std::function<void()> begin_backward;
  // One per layer, in the order of backward. The argument is the input, if it has been gathered
  // again.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // its quantized copy for weight gradients
};

// The product that ends a divided region (LayerOperators::LeaveRows).
struct RowRegion {
  // Output pieces, if the product's result is summed piece by piece, and a callback that runs after
  // each piece.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // In backward, the gathered gradient of the output: in pieces, or quantized. Empty: the tape's
  // gradient.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
