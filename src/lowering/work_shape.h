#pragma once

#include <vector>

#include "src/model/layer_work.h"

namespace stepcast::lowering {

// Whether micro-batches of these works (model::BuildWork of one model) take the same instructions:
// as many kernels of the same kinds, which make the same activations and complete the same
// gradients, and as many tensors. How large all of it is does not matter.
bool SameShape(const std::vector<model::LayerWork>& a, const std::vector<model::LayerWork>& b);

}  // namespace stepcast::lowering
