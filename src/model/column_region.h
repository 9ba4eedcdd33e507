#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/model/fp8_copies.h"
#include "src/model/layer_tape.h"

namespace stepcast::model {

// Linear layers that share one input and are divided by columns (LayerOperators::EnterColumns): in
// backward the gradients of their input are added up over the ranks while those of their weights
// are computed.
struct ColumnRegion {
  LayerTape::Value kept = -1;  // what their weight gradients need: the input, or a part of it
  // Before the first backward kernel of the region.
  std::function<void()> begin_backward;
  // By layer, in the order of backward. Takes the input where it has been gathered again.
  std::vector<std::function<void(std::optional<LayerTape::Value>)>> weight_gradients;
  std::optional<LayerTape::Value> gathered;
  std::optional<Fp8Copies> gathered_in_fp8;
};

}  // namespace stepcast::model
