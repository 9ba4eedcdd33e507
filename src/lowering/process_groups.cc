#include "src/lowering/process_groups.h"

#include "src/base/check.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using parallel::GroupLayout;

void ProcessGroups::CheckNeighboursShareStates() const {
  STEPCAST_CHECK(shard.dimensions().empty() || shard.dimensions().front().stride == 1,
                 "neighbouring ranks share one copy of the states: there is no tensor parallelism");
}

GroupLayout ProcessGroups::Near(std::int64_t count) const {
  CheckNeighboursShareStates();
  return GroupLayout(data.ranks(), {{.stride = 1, .degree = static_cast<int>(count)}});
}

GroupLayout ProcessGroups::Far(std::int64_t count) const {
  CheckNeighboursShareStates();
  const auto stride = static_cast<int>(count);
  return GroupLayout(data.ranks(), {{.stride = stride, .degree = data.ranks() / stride}});
}

ProcessGroups ProcessGroupsOf(const plan::Plan& plan, int rank, model::ParameterGroup group) {
  const parallel::Grids grids = plan::GridsOf(plan);
  const plan::GroupAxes axes = plan::AxesOf(group);
  return {.rank = rank,
          .data = grids.Layout(axes.gradients),
          .shard = grids.Layout(axes.states),
          .replica = grids.Layout(axes.replicas)};
}

}  // namespace stepcast::lowering
