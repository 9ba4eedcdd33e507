#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/model/layer.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// The properties of a rank that determine its program, except the ranks of its process groups and
// the offsets in its data flow. Every such property must be a field of this struct.
struct RankLabel {
  int stage = 0;  // pipeline stage
  friend bool operator==(const RankLabel&, const RankLabel&) = default;
};

// The labels of all ranks of a plan. Every label has the same number of ranks. If two ranks have
// the same label, their groups contain equal numbers of ranks of each label.
class RankLabels {
 public:
  explicit RankLabels(const Plan& plan);

  // Returns the distinct labels, ordered by the lowest rank of each label.
  const std::vector<RankLabel>& distinct() const { return distinct_; }
  // Returns the rank's label, as an index into distinct().
  std::size_t Of(int rank) const { return static_cast<std::size_t>(across_.Index(rank)); }
  // Returns the number of ranks of each label.
  int ranks_of_each() const { return across_.groups(); }
  // FirstRank returns the lowest rank of this label. `Ranks` returns all ranks of this label in
  // ascending order.
  int FirstRank(std::size_t label) const { return first_ranks_[label]; }
  std::vector<int> Ranks(std::size_t label) const;

 private:
  parallel::GroupLayout across_;  // groups along the axes on which labels differ
  std::vector<int> first_ranks_;  // [label]
  std::vector<RankLabel> distinct_;
};

// Returns the plan's ranks on two grids.
//
// The axes of the dense grid, fastest first, are tensor parallelism, context parallelism, shards,
// replicas and pipeline stages. The ranks along the shard axis (`shard_group_size`) share one copy
// of the model states. Only hybrid sharding has replicas.
//
// On the expert grid, neighboring ranks have parts of the same experts, and groups of such ranks
// have different experts. The experts' states have as many copies as all other states
// (megatron/core/parallel_state.py, `tp-cp-ep-dp-pp`).
parallel::Grids GridsOf(const Plan& plan);

// The axes of a parameter group. `states`: ranks share one copy of the states. `gradients`: ranks
// sum gradients. `replicas`: ranks have copies of the same shard.
struct GroupAxes {
  parallel::AxisSet states, gradients, replicas;
};
GroupAxes AxesOf(model::ParameterGroup group);

// Returns whether experts' weights have a separate grid. True if some ranks have equal parts of all
// other tensors, but different experts or different parts of experts. If false, experts are sharded
// and reduced with all other tensors.
bool HasExpertGroup(const Plan& plan);

// Returns the index of the part of a batch on which the rank trains. Tensor-parallel ranks have the
// same samples; context-parallel ranks have different tokens.
std::int64_t BatchPartOf(const Plan& plan, int rank);

// With sequence parallelism, tensor-parallel ranks sum the gradients of parameters that each rank
// applies to a part of the tokens. True: once per step, before the optimizer step (Megatron-LM).
// False: in each layer's backward.
bool AddsUpPartsOfTokens(const Plan& plan);

// Returns the rank's pipeline stage.
int StageOf(const Plan& plan, int rank);

}  // namespace stepcast::plan
