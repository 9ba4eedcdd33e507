#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/model/layer_tape.h"

namespace stepcast::model {

// Linear layers that share one input and are divided by columns (LayerOperators::EnterColumns): in
// backward the gradients of their input are added up over the ranks while those of their weights
// are computed.
struct ColumnRegion {
  // What forward products read where it is not the operand itself: parts of the tokens, as they
  // come, or a quantized copy.
  std::vector<LayerTape::Piece> inputs;
  bool quantized = false;
  // What weight gradients need: the input, or a part of it.
  std::vector<LayerTape::Value> kept;
  // Before the first backward kernel of the region.
  std::function<void()> begin_backward;
  // By layer, in the order of backward. Takes the input where it has been gathered again.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // its quantized copy for weight gradients
};

// The product that ends a divided region (LayerOperators::LeaveRows).
struct RowRegion {
  // What the product writes, where that is summed up piece by piece, and what follows each piece.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // In backward the gradient of its output, gathered: in pieces, or quantized. Empty: the tape's.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
