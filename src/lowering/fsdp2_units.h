#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/lowering/block_layout.h"
#include "src/lowering/operations.h"
#include "src/lowering/sharded_state.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"
#include "src/model/layer.h"

// What FSDP2 has of each module that it shards: ranges, events, and what there is of them while a
// step is written.
namespace stepcast::lowering {

// One fully_shard'ed module, or of one whose experts are sharded over other ranks than the rest the
// one or the other: parameters of one mesh, which are gathered and reduced together (torchtitan:
// one fully_shard with a mesh for each parameter).
struct ShardedUnit {
  model::ParameterGroup group = model::ParameterGroup::kDense;
  int experts = -1;  // the unit of the module's experts, where they have one; else -1
  bool root = false;
  int first_layer = 0, last_layer = 0;
  std::vector<int> tensors;
  std::vector<std::int64_t> tensor_elements;  // of this rank, by tensor, padded rows included
  std::int64_t shard_elements = 0;            // of all of them
  std::int64_t gathered_elements = 0;         // of all ranks, frozen ones, too
  BlockLayout blocks;                         // of the shards; with a data flow
  BlockLayout gather_blocks;                  // the same before the frozen ones
  BlockLayout kept_blocks;                    // of what reshard_after_forward: k keeps
  bool empty = false;                         // no elements
  bool has_backward = true;                   // else nothing before it, or of it, is trained
  ShardedState state;
  // Parameters.
  Range gathered;  // result of the all-gather
  Range full;      // the parameters as the kernels read them
  Range kept;      // reshard_after_forward: k
  Range frozen;    // this rank's shard of what is not trained
  Index gather_done = program::kNone, copy_out_done = program::kNone,
        kept_written = program::kNone;  // events
  bool gather_issued = false;           // a gather is in flight or its result waits for copy-out
  bool unshard_issued = false;          // the schedule has asked for it
  bool unsharded = false;               // the full parameters exist
  bool has_kept = false;
  // Gradients.
  Range accumulated;                    // full, in reduce_dtype, when synchronisation is put off
  Range reduce_input;                   // full, in reduce_dtype
  Range reduce_output;                  // this rank's shard, in reduce_dtype
  Index reduced = program::kNone;       // event: the reduce-scatter has read its input
  Index post_reduced = program::kNone;  // event: the sharded gradient is final
  bool has_accumulated = false;
};

struct Fsdp2Shards {
  // By model::ParameterGroup: over how many ranks, and which of them this one is.
  struct Mesh {
    std::int64_t index = 0, ranks = 1;
  };
  std::array<Mesh, 2> meshes{};
  bool has_experts_apart = false;  // plan::HasExpertGroup
  std::int64_t kept_ranks = 0;     // of reshard_after_forward: k; 0: no parts are kept
  bool accumulates = false;        // full gradients are kept in reduce_dtype
};

// Describes the units of `wrapping`, in its order, and behind them those of experts; allocates what
// lives from step to step.
std::vector<ShardedUnit> AddShardedUnits(TrainingStep& step, Operations& operations,
                                         const Units& wrapping, const Fsdp2Shards& shards);

}  // namespace stepcast::lowering
