#include "src/lowering/parameter_share.h"

#include <cstddef>

#include "src/parallel/rank_grid.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

ParameterShares::ParameterShares(const plan::Plan& plan, const model::Model& stage) {
  const parallel::Grids grids = plan::GridsOf(plan);
  for (const model::ParameterGroup group : model::kParameterGroups) {
    shares_[static_cast<std::size_t>(group)].ranks = grids.Degree(plan::AxesOf(group).states);
  }
  const bool apart = plan::HasExpertGroup(plan);
  for (const model::Tensor& tensor : stage.tensors) {
    const auto group = apart ? tensor.group : model::ParameterGroup::kDense;
    shares_[static_cast<std::size_t>(group)].elements += tensor.elements;
  }
}

std::int64_t ParameterShares::elements() const {
  std::int64_t elements = 0;
  for (const ParameterShare& share : shares_) elements += share.elements;
  return elements;
}

Bytes ParameterShares::Sharded(std::int64_t bytes_per_parameter) const {
  Bytes bytes;
  for (const ParameterShare& share : shares_) {
    bytes += Bytes((share.elements * bytes_per_parameter + share.ranks - 1) / share.ranks);
  }
  return bytes;
}

}  // namespace stepcast::lowering
