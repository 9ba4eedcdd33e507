#include "src/plan/rank_grid.h"

#include <cstddef>
#include <cstdint>

#include "src/parallel/axis.h"

namespace stepcast::plan {

parallel::RankGrid GridOf(const Plan& plan) {
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  const std::int64_t inner = plan.parallelism.context_inner;
  return parallel::RankGrid(
      {{parallel::Axis::kTensor, static_cast<int>(plan.parallelism.tensor)},
       {parallel::Axis::kContextInner, static_cast<int>(inner)},
       {parallel::Axis::kContextOuter, static_cast<int>(plan.parallelism.context / inner)},
       {parallel::Axis::kShardOuter, static_cast<int>(shard)},
       {parallel::Axis::kReplica, static_cast<int>(plan.parallelism.data / shard)},
       {parallel::Axis::kPipeline, static_cast<int>(plan.parallelism.pipeline)}});
}

std::int64_t BatchPartOf(const Plan& plan, int rank) {
  const std::int64_t place = rank % (plan.parallelism.tensor * GradientRanks(plan));
  return AddsUpPartsOfTokens(plan) ? place : place / plan.parallelism.tensor;
}

bool AddsUpPartsOfTokens(const Plan& plan) {
  return plan.parallelism.sequence_parallel && TraitsOf(plan.data_parallel.framework).gathers_again;
}

int StageOf(const Plan& plan, int rank) {
  return GridOf(plan).At(rank)[static_cast<std::size_t>(parallel::Axis::kPipeline)];
}

}  // namespace stepcast::plan
