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
  // The values that the forward GEMMs read: the complete input, the parts of its tokens as they
  // arrive, or a quantized copy (`quantized`).
  std::vector<LayerTape::Piece> inputs;
  bool quantized = false;
  // The values that the weight-gradient GEMMs read: the region's input, or a part of the input.
  std::vector<LayerTape::Value> kept;
  // Prepares the region's backward. The function must be called before the region's first backward
  // kernel.
  std::function<void()> begin_backward;
  // The functions that run the weight-gradient GEMM of each layer, in the order of backward. If
  // backward gathers the region's input again, the argument is the gathered input. Otherwise, it is
  // empty.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // the quantized copy, for weight gradients
};

// The linear layer that ends a divided region (LayerOperators::LeaveRows).
struct RowRegion {
  // The pieces of the output, if the ranks sum the GEMM's result piece by piece. After each piece
  // is written, `made` is called with the piece's index.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // The gathered gradient of the output, in pieces or as a quantized copy (`quantized`). Backward
  // reads it. Empty: backward reads the gradient on the tape.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
