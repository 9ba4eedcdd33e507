#include "src/plan/rank_grid.h"

#include <cstdint>

#include "src/parallel/axis.h"

namespace stepcast::plan {

parallel::RankGrid GridOf(const Plan& plan) {
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  return parallel::RankGrid(
      {{parallel::Axis::kShardOuter, static_cast<int>(shard)},
       {parallel::Axis::kReplica, static_cast<int>(plan.parallelism.data / shard)}});
}

}  // namespace stepcast::plan
