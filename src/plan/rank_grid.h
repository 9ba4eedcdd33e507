#pragma once

#include "src/parallel/rank_grid.h"
#include "src/plan/plan.h"

namespace stepcast::plan {

// The plan's ranks: neighbours share a copy of the model states, `shard_group_size` of them, and
// ranks so far apart hold the same shard of several copies (hybrid sharding).
parallel::RankGrid GridOf(const Plan& plan);

}  // namespace stepcast::plan
