#include "src/model/local.h"

#include <cstddef>

namespace stepcast::model {

Model Localised(const Model& whole, std::int64_t ranks) {
  Model local = whole;
  const auto divide = [ranks](Tensor& tensor) {
    if (tensor.division != Division::kDimension0 && tensor.division != Division::kDimension1) {
      return;
    }
    const std::size_t dimension = tensor.division == Division::kDimension0 ? 0 : 1;
    std::int64_t& extent = tensor.shape[dimension];
    extent = (extent + ranks - 1) / ranks;
    tensor.elements = 1;
    for (const std::int64_t size : tensor.shape) tensor.elements *= size;
  };
  for (Tensor& tensor : local.tensors) divide(tensor);
  for (Tensor& tensor : local.frozen) divide(tensor);
  return local;
}

}  // namespace stepcast::model
