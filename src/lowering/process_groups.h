#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"

// Which ranks communicate with rank 0. The model states are sharded over `shard_group_size`
// neighbouring ranks, and every shard is replicated data / shard_group_size times (hybrid sharding
// when there are several replicas).
namespace stepcast::lowering {

struct ProcessGroups {
  std::vector<int> data;     // all data-parallel ranks
  std::vector<int> shard;    // ranks that share one copy of the states
  std::vector<int> replica;  // ranks that hold the same shard
  // The shard group's name: "data" when it holds all ranks.
  const char* shard_name() const { return replica.size() == 1 ? "data" : "shard"; }
};

ProcessGroups ProcessGroupsOf(const plan::Plan& plan);

// Ranks 0, stride, 2 stride, ...
std::vector<int> Ranks(std::int64_t count, std::int64_t stride = 1);

}  // namespace stepcast::lowering
