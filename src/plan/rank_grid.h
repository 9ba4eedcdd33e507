#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/model/layer.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// The facts of a plan that tell the program of a rank from the programs of others, beside the ranks
// in its process groups and the offsets in its data flow. A further such fact is a field here.
struct RankLabel {
  int stage = 0;  // of the pipeline
  friend bool operator==(const RankLabel&, const RankLabel&) = default;
};

// The labels of all ranks of a plan. Labels differ along axes of the grid, so each is the label of
// equally many ranks, and these stand alike in their process groups: two ranks of one label are in
// groups with as many ranks of each label.
class RankLabels {
 public:
  explicit RankLabels(const Plan& plan);

  // Each label once, by the lowest rank that has it.
  const std::vector<RankLabel>& distinct() const { return distinct_; }
  // The rank's label, as an index into `distinct`.
  std::size_t Of(int rank) const { return static_cast<std::size_t>(across_.Index(rank)); }
  // How many ranks have a label.
  int ranks_of_each() const { return across_.groups(); }
  // The lowest of the ranks that have this label, and all of them, ascending.
  int FirstRank(std::size_t label) const { return first_ranks_[label]; }
  std::vector<int> Ranks(std::size_t label) const;

 private:
  parallel::GroupLayout across_;  // along the axes on which labels differ
  std::vector<int> first_ranks_;  // [label]
  std::vector<RankLabel> distinct_;
};

// The plan's ranks. On the dense grid neighbours share the layers of tensor parallelism;
// neighbouring groups of those have parts of the same sequences (context parallelism); groups of
// those beside each other share a copy of the model states, `shard_group_size` of them; ranks so
// far apart hold the same shard of several copies (hybrid sharding); the ranks of a pipeline stage
// come one behind the other, stage after stage. On the expert grid neighbours have parts of the
// same experts, groups of those different experts, and so many copies of the experts' states exist
// as of all others (megatron/core/parallel_state.py, `tp-cp-ep-dp-pp`).
parallel::Grids GridsOf(const Plan& plan);

// The axes along which the tensors of a group are sharded, have their gradients added up, and are
// held in further copies of the same shard.
struct GroupAxes {
  parallel::AxisSet states, gradients, replicas;
};
GroupAxes AxesOf(model::ParameterGroup group);

// Whether weights of experts stand on a grid of their own: some ranks have other experts, or other
// parts of them, than of the tensors that all ranks of a data-parallel group have. Else they are
// sharded and reduced with all other tensors.
bool HasExpertGroup(const Plan& plan);

// Whose samples of a batch the rank trains on: ranks that share out layers see the same ones, or,
// where their gradients are added up, each a part of the tokens.
std::int64_t BatchPartOf(const Plan& plan, int rank);

// With sequence parallelism, gradients of what is applied to a part of the tokens are added up over
// the tensor-parallel ranks: once a step, before the update (Megatron-LM), or else in the backward
// of each layer.
bool AddsUpPartsOfTokens(const Plan& plan);

// Which pipeline stage the rank is in: ranks of one stage run one program.
int StageOf(const Plan& plan, int rank);

}  // namespace stepcast::plan
