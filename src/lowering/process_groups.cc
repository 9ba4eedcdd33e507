#include "src/lowering/process_groups.h"

#include "src/parallel/axis.h"

namespace stepcast::lowering {

using parallel::Axis;
using parallel::GroupLayout;
using parallel::RankGrid;

RankGrid GridOf(const plan::Plan& plan) {
  const std::int64_t data = plan.parallelism.data;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return RankGrid({{Axis::kShardOuter, static_cast<int>(shard)},
                   {Axis::kReplica, static_cast<int>(data / shard)}});
}

GroupLayout ProcessGroups::Near(std::int64_t count) const {
  return GroupLayout(data.ranks(), {{.stride = 1, .degree = static_cast<int>(count)}});
}

GroupLayout ProcessGroups::Far(std::int64_t count) const {
  const auto stride = static_cast<int>(count);
  return GroupLayout(data.ranks(), {{.stride = stride, .degree = data.ranks() / stride}});
}

ProcessGroups ProcessGroupsOf(const plan::Plan& plan, int rank) {
  const RankGrid grid = GridOf(plan);
  return {.rank = rank,
          .data = grid.Layout(parallel::kData),
          .shard = grid.Layout(parallel::kShard),
          .replica = grid.Layout(Axis::kReplica)};
}

}  // namespace stepcast::lowering
