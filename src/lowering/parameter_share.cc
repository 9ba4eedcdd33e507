#include "src/lowering/parameter_share.h"

#include <cstddef>

#include "src/parallel/rank_grid.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

GroupElements ElementsOf(const model::Model& model) {
  GroupElements elements{};
  for (const model::Tensor& tensor : model.tensors) {
    elements[static_cast<std::size_t>(tensor.group)] += tensor.elements;
  }
  return elements;
}

ParameterShares::ParameterShares(const plan::Plan& plan, const GroupElements& of_stage) {
  const parallel::Grids grids = plan::GridsOf(plan);
  const bool apart = plan::HasExpertGroup(plan);
  for (const model::ParameterGroup group : model::kParameterGroups) {
    const auto own = static_cast<std::size_t>(group);
    shares_[own].ranks = grids.Degree(plan::AxesOf(group).states);
    const auto stands_with =
        static_cast<std::size_t>(apart ? group : model::ParameterGroup::kDense);
    shares_[stands_with].elements += of_stage[own];
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
