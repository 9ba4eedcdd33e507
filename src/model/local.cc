#include "src/model/local.h"

#include <cstddef>
#include <cstdint>

namespace stepcast::model {

Model Localised(const Model& whole, const parallel::Grids& grids) {
  Model local = whole;
  const auto divide = [&grids](Tensor& tensor) {
    for (const Split& split : tensor.splits) {
      if (split.dimension == Split::kOwn) continue;
      const std::int64_t ranks = grids.Degree(split.axis);
      std::int64_t& extent = tensor.shape[static_cast<std::size_t>(split.dimension)];
      extent = (extent + ranks - 1) / ranks;
    }
    tensor.elements = 1;
    for (const std::int64_t size : tensor.shape) tensor.elements *= size;
  };
  for (Tensor& tensor : local.tensors) divide(tensor);
  for (Tensor& tensor : local.frozen) divide(tensor);
  return local;
}

std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at) {
  std::int64_t part = 0;
  for (const Split& split : tensor.splits) {
    part = part * grids.Degree(split.axis) + at[static_cast<std::size_t>(split.axis)];
  }
  return part;
}

}  // namespace stepcast::model
