#pragma once

#include <cstdint>

#include "src/model/layer.h"
#include "src/parallel/group_layout.h"
#include "src/plan/plan.h"

// The groups that a rank communicates in. The model states are sharded over plan::ShardRanks
// neighbouring ranks, and every shard is replicated data / shard_group_size times (hybrid sharding
// when there are several replicas). Ranks that have parts of a sequence are among them.
namespace stepcast::lowering {

struct ProcessGroups {
  int rank = 0;
  parallel::GroupLayout data;     // all data-parallel ranks
  parallel::GroupLayout shard;    // ranks that share one copy of the states
  parallel::GroupLayout replica;  // ranks that hold the same shard

  // The `count` neighbouring ranks when all ranks are cut into such groups, and the ranks that have
  // the same position in each of those: with the GPUs of a node as `count`, one GPU of each node.
  // Requires that `count` divides the ranks that share one copy of the states, and that these are
  // neighbours: with tensor parallelism a rank's neighbours have other parts of its layers.
  parallel::GroupLayout Near(std::int64_t count) const;
  parallel::GroupLayout Far(std::int64_t count) const;

  // The shard group's name: "data" when it holds all ranks.
  const char* shard_name() const { return replica.size() == 1 ? "data" : "shard"; }
  // Which shard is the rank's: its place in its shard group.
  std::int64_t shard_index() const { return shard.Index(rank); }

 private:
  void CheckNeighboursShareStates() const;
};

// Of the tensors of a group.
ProcessGroups ProcessGroupsOf(const plan::Plan& plan, int rank,
                              model::ParameterGroup group = model::ParameterGroup::kDense);

}  // namespace stepcast::lowering
