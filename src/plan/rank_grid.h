#pragma once

#include <cstdint>

#include "src/model/layer.h"
#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

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
