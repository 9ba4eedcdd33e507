#pragma once

#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// The plan's ranks: neighbours share a copy of the model states, `shard_group_size` of them; ranks
// so far apart hold the same shard of several copies (hybrid sharding); the ranks of a pipeline
// stage come one behind the other, stage after stage.
parallel::RankGrid GridOf(const Plan& plan);

// Which pipeline stage the rank is in: ranks of one stage run one program.
int StageOf(const Plan& plan, int rank);

}  // namespace stepcast::plan
