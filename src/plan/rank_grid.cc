#include "src/plan/rank_grid.h"

#include <cstddef>
#include <cstdint>

#include "src/parallel/axis.h"

namespace stepcast::plan {
RankLabels::RankLabels(const Plan& plan)
    : across_(GridsOf(plan).Layout(parallel::Axis::kPipeline)), first_ranks_(across_.Ranks(0)) {
  for (int stage = 0; stage < across_.size(); ++stage) distinct_.push_back({.stage = stage});
}

std::vector<int> RankLabels::Ranks(std::size_t label) const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(ranks_of_each()));
  for (int rank = 0; rank < across_.ranks(); ++rank) {
    if (Of(rank) == label) ranks.push_back(rank);
  }
  return ranks;
}

using parallel::Axis;

parallel::Grids GridsOf(const Plan& plan) {
  const Parallelism& axes = plan.parallelism;
  const std::int64_t shard = plan.data_parallel.shard_group_size;
  const std::int64_t inner = axes.context_inner;
  const std::int64_t replicas = axes.data / shard;
  const std::int64_t of_stage = axes.tensor * axes.context * axes.data;
  const std::int64_t expert_data = of_stage / (axes.expert_tensor * axes.expert);
  return {
      parallel::RankGrid({{Axis::kTensor, static_cast<int>(axes.tensor)},
                          {Axis::kContextInner, static_cast<int>(inner)},
                          {Axis::kContextOuter, static_cast<int>(axes.context / inner)},
                          {Axis::kShard, static_cast<int>(shard)},
                          {Axis::kReplica, static_cast<int>(replicas)},
                          {Axis::kPipeline, static_cast<int>(axes.pipeline)}}),
      parallel::RankGrid({{Axis::kExpertTensor, static_cast<int>(axes.expert_tensor)},
                          {Axis::kExpertInner, static_cast<int>(axes.expert_near)},
                          {Axis::kExpertOuter, static_cast<int>(axes.expert / axes.expert_near)},
                          {Axis::kExpertShard, static_cast<int>(expert_data / replicas)},
                          {Axis::kExpertReplica, static_cast<int>(replicas)},
                          {Axis::kPipeline, static_cast<int>(axes.pipeline)}})};
}

GroupAxes AxesOf(model::ParameterGroup group) {
  if (group == model::ParameterGroup::kExperts) {
    return {.states = Axis::kExpertShard,
            .gradients = parallel::kExpertData,
            .replicas = Axis::kExpertReplica};
  }
  return {
      .states = parallel::kStates, .gradients = parallel::kGradients, .replicas = Axis::kReplica};
}

bool HasExpertGroup(const Plan& plan) {
  return plan.parallelism.expert > 1 || plan.parallelism.expert_tensor > 1 ||
         plan.parallelism.tensor > 1;
}

std::int64_t BatchPartOf(const Plan& plan, int rank) {
  const parallel::AxisSet parts =
      AddsUpPartsOfTokens(plan) ? Axis::kTensor | parallel::kGradients : parallel::kGradients;
  return GridsOf(plan).Layout(parts).Index(rank);
}

bool AddsUpPartsOfTokens(const Plan& plan) {
  return plan.parallelism.sequence_parallel && TraitsOf(plan.data_parallel.framework).gathers_again;
}

int StageOf(const Plan& plan, int rank) {
  return GridsOf(plan).dense().At(rank)[static_cast<std::size_t>(Axis::kPipeline)];
}

}  // namespace stepcast::plan
