#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/model/layer_tape.h"

namespace stepcast::model {

// Several linear layers with one shared input that are divided by columns
// (LayerOperators::EnterColumns). In backward, the ranks sum the gradient of the shared input while
// they compute the weights' gradients.
struct ColumnRegion {
  // The values that the forward GEMMs read: the complete input, the parts of its tokens in the
  // order of arrival, or a quantized copy (`quantized`).
  std::vector<LayerTape::Piece> inputs;
  bool quantized = false;
  // The values that the weight-gradient GEMMs read: the region's input, or a part of the input.
  std::vector<LayerTape::Value> kept;
  // Prepares the region's backward. Must be called before the region's first backward kernel.
  std::function<void()> begin_backward;
  // One function per layer, in the order of backward, which runs the layer's weight-gradient GEMM.
  // If backward gathers the input again, the argument is the gathered input. Otherwise, the
  // argument is empty.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<LayerTape::Value> gathered_columns;  // the quantized copy, for weight gradients
};

// The last linear layer of a region that tensor parallelism divides (LayerOperators::LeaveRows).
struct RowRegion {
  // The pieces of the output, if the ranks sum the GEMM's result piece by piece. `made` is called
  // with a piece's index after the piece is computed.
  std::vector<LayerTape::Piece> outputs;
  std::function<void(int)> made;
  // The gathered gradient of the output that backward reads, in pieces or as a quantized copy
  // (`quantized`). Empty: backward reads the gradient that the tape stores.
  std::vector<LayerTape::Piece> gradient;
  bool quantized = false;
};

}  // namespace stepcast::model
