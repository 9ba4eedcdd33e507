#include "src/plan/rank_grid.h"

#include <cstddef>
#include <cstdint>

#include "src/parallel/axis.h"

namespace stepcast::plan {

parallel::RankGrid GridOf(const Plan& plan) {
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return parallel::RankGrid(
      {{parallel::Axis::kShardOuter, static_cast<int>(shard)},
       {parallel::Axis::kReplica, static_cast<int>(plan.parallelism.data / shard)},
       {parallel::Axis::kPipeline, static_cast<int>(plan.parallelism.pipeline)}});
}

int StageOf(const Plan& plan, int rank) {
  return GridOf(plan).At(rank)[static_cast<std::size_t>(parallel::Axis::kPipeline)];
}

}  // namespace stepcast::plan
