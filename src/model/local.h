#pragma once

#include <cstdint>

#include "src/model/model.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::model {

// The model as one rank has it: of tensors that are split among ranks, its part. Where an extent
// does not divide, the largest part.
Model Localised(const Model& whole, const parallel::Grids& grids);

// Which of a tensor's parts a rank with these coordinates has, counted along the axes that it is
// split along; 0 where it is whole.
std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at);

}  // namespace stepcast::model
