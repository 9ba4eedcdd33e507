#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/model/layer.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// The properties of a rank that determine its program, in addition to the ranks of its process
// groups and the offsets in its data flow. Add further such properties as fields here.
struct RankLabel {
  int stage = 0;  // of the pipeline
  friend bool operator==(const RankLabel&, const RankLabel&) = default;
};

// The labels of all ranks of a plan. Labels differ along axes of the grid, so every label has the
// same number of ranks. Two ranks with the same label are in groups with equal numbers of ranks of
// each label.
class RankLabels {
 public:
  explicit RankLabels(const Plan& plan);

  // Returns the distinct labels, ordered by the lowest rank of each label.
  const std::vector<RankLabel>& distinct() const { return distinct_; }
  // Returns the rank's label, as an index into distinct().
  std::size_t Of(int rank) const { return static_cast<std::size_t>(across_.Index(rank)); }
  // Returns the number of ranks of each label.
  int ranks_of_each() const { return across_.groups(); }
  // These functions return the lowest rank of this label, and all its ranks in ascending order.
  int FirstRank(std::size_t label) const { return first_ranks_[label]; }
  std::vector<int> Ranks(std::size_t label) const;

 private:
  parallel::GroupLayout across_;  // along the axes on which labels differ
  std::vector<int> first_ranks_;  // [label]
  std::vector<RankLabel> distinct_;
};

// Returns the plan's ranks on two grids. On the dense grid, from the innermost axis: neighboring
// ranks share layers (tensor parallelism); groups of these ranks hold parts of the same sequences
// (context parallelism); `shard_group_size` such groups share a copy of the model states; ranks at
// that distance hold the same shard of several copies (hybrid sharding); pipeline stages are
// consecutive. On the expert grid, neighboring ranks hold parts of the same experts, and groups of
// these ranks hold different experts. There are as many copies of the experts' states as of all
// other states (megatron/core/parallel_state.py, `tp-cp-ep-dp-pp`).
parallel::Grids GridsOf(const Plan& plan);

// The axes of a parameter group along which its states are sharded, its gradients are summed, and
// the same shard is replicated.
struct GroupAxes {
  parallel::AxisSet states, gradients, replicas;
};
GroupAxes AxesOf(model::ParameterGroup group);

// Returns whether experts' weights are on a grid of their own: some ranks hold different experts,
// or different parts of them, but the same other tensors. If not, experts are sharded and reduced
// with all other tensors.
bool HasExpertGroup(const Plan& plan);

// Returns the index of the part of a batch that the rank trains on. Ranks that divide layers have
// the same samples. If their gradients are summed, each of them has a part of the tokens.
std::int64_t BatchPartOf(const Plan& plan, int rank);

// Returns, for sequence parallelism, whether gradients of parameters applied to a part of the
// tokens are summed over the tensor-parallel ranks once a step, before the update (Megatron-LM). If
// false, they are summed in the backward of each layer.
bool AddsUpPartsOfTokens(const Plan& plan);

// Returns the rank's pipeline stage. All ranks of a stage run the same program.
int StageOf(const Plan& plan, int rank);

}  // namespace stepcast::plan
