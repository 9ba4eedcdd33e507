#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"

// Which ranks communicate with a rank. The model states are sharded over `shard_group_size`
// neighbouring ranks, and every shard is replicated data / shard_group_size times (hybrid sharding
// when there are several replicas).
namespace stepcast::lowering {

struct ProcessGroups {
  int rank = 0;
  std::vector<int> data;     // all data-parallel ranks
  std::vector<int> shard;    // ranks that share one copy of the states
  std::vector<int> replica;  // ranks that hold the same shard
  // The shard group's name: "data" when it holds all ranks.
  const char* shard_name() const { return replica.size() == 1 ? "data" : "shard"; }
  // Which shard is the rank's: its place in `shard`.
  std::int64_t shard_index() const { return rank - shard.front(); }
};

ProcessGroups ProcessGroupsOf(const plan::Plan& plan, int rank);

// The `count` neighbouring ranks, `rank` among them, when all ranks are cut into such groups.
std::vector<int> Neighbours(int rank, std::int64_t count);

// Of `all` ranks, every `stride`-th one, `rank` among them: with the GPUs of a node as stride, one
// GPU of each node.
std::vector<int> Strided(int rank, std::int64_t stride, std::int64_t all);

}  // namespace stepcast::lowering
