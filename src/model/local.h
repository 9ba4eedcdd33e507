#pragma once

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::model {

// The model as one rank has it: of tensors that are split among ranks, its part. Where an extent
// does not divide, the largest part.
Model Localised(const Model& whole, const parallel::Grids& grids);

}  // namespace stepcast::model
