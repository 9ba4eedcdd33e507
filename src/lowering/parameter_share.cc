#include "src/lowering/parameter_share.h"

#include <cstddef>
#include <vector>

#include "src/parallel/rank_grid.h"
#include "src/plan/optimizer_states.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

ParameterShares::ParameterShares(const plan::Plan& plan, const model::Model& stage) {
  const parallel::Grids grids = plan::GridsOf(plan);
  for (const model::ParameterGroup group : model::kParameterGroups) {
    shares_[static_cast<std::size_t>(group)].ranks = grids.Degree(plan::AxesOf(group).states);
  }
  const bool apart = plan::HasExpertGroup(plan);
  std::array<std::vector<int>, 2> tensors;
  for (std::size_t t = 0; t < stage.tensors.size(); ++t) {
    const model::Tensor& tensor = stage.tensors[t];
    const auto group =
        static_cast<std::size_t>(apart ? tensor.group : model::ParameterGroup::kDense);
    shares_[group].elements += tensor.elements;
    tensors[group].push_back(static_cast<int>(t));
  }
  for (std::size_t group = 0; group < shares_.size(); ++group) {
    states_[group] = plan::OptimizerStateBytes(plan, stage, tensors[group]);
  }
}

Bytes ParameterShares::OptimizerStates(bool sharded) const {
  Bytes bytes;
  for (std::size_t group = 0; group < shares_.size(); ++group) {
    const std::int64_t ranks = sharded ? shares_[group].ranks : 1;
    bytes += Bytes((states_[group].count() + ranks - 1) / ranks);
  }
  return bytes;
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
