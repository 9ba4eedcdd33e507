#pragma once

#include <cstdint>

#include "src/model/model.h"

namespace stepcast::model {

// The part of the model that one rank of a tensor-parallel group of so many has: the same layers,
// with the shapes of its parts of the divided tensors. What does not divide is rounded up: the last
// rank's part is padded. Its works are those of WorkOptions::tensor ranks.
Model Localised(const Model& whole, std::int64_t ranks);

}  // namespace stepcast::model
