#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/rank_grid.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// Returns a memory-bound kernel, such as a copy, cast or addition, that reads and writes these
// bytes.
inline Kernel MemoryKernel(std::string name, DataType type, Bytes read, Bytes written) {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = type,
          .read = read,
          .written = written};
}

// Memory that all frameworks except `reference` use in addition to the sharding strategy's memory.

// Allocates workspaces of the matrix libraries, which are never freed:
//
//  * PyTorch has one workspace for each cuBLAS handle and stream
//    (aten/src/ATen/cuda/CublasHandlePool.cpp). Each thread has a handle, and autograd's backward
//    runs on a separate thread, so there are two workspaces. Deterministic workspaces
//    (CUBLAS_WORKSPACE_CONFIG=:4096:8) have eight buffers of 4 MiB each.
//  * Transformer Engine's layers have a separate workspace: 32 MiB from Hopper on, otherwise 4 MiB
//    (transformer_engine/pytorch/module/base.py, get_cublas_workspace_size_bytes).
//
// The sizes agree to 1.1 MB with peaks printed by Megatron-LM's functional tests (golden values of
// gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer, A100 and H100, deterministic). Does
// nothing without a GPU or without matrix multiplications (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step);

// Effects of operations on values (src/program/data_flow.h).

// Returns the location of a buffer's elements of `type` from element `first` on.
inline program::Elements At(program::Index buffer, std::int64_t first, DataType type) {
  return {.buffer = buffer, .offset = BytesOf(first, type), .type = type};
}

// Returns the location `elements` elements after `place`.
inline program::Elements Further(program::Elements place, std::int64_t elements) {
  place.offset += BytesOf(elements, place.type);
  return place;
}

// Returns the effect target = source, with conversion. `target` and `source` are contiguous.
program::Effect Move(program::Elements target, program::Elements source, std::int64_t elements);
// Returns the effect target += source.
program::Effect Added(program::Effect move);
// Returns the effect target = scale x source.
program::Effect Scaled(double scale, program::Effect move);
// Divides a move into blocks of `block` elements. The strides are the distances between the starts
// of consecutive blocks in the target and in the source, in elements.
program::Effect InBlocks(program::Effect move, std::int64_t block, std::int64_t target_stride,
                         std::int64_t source_stride);

// Returns the effect of a collective. `elements` is the number of elements on all ranks.
program::Effect Collected(program::Elements target, program::Elements source,
                          std::int64_t elements);

// Returns the effect that sets `number` to `scale` times the sum of the squares of `elements`
// elements. With `add`, the sum is added to `number`.
program::Effect Squares(program::Elements number, program::Elements source, std::int64_t elements,
                        bool add, double scale = 1);
// Returns the effect that scales `target` so that its norm is at most `limit`. `squares` is the
// location of the square of the current norm.
program::Effect Clipped(program::Elements target, program::Elements squares, std::int64_t elements,
                        double limit);

// Returns the effect of an optimizer's update. `states` is the location of the first of several
// arrays of one type, which start `stride` elements apart (program/data_flow.h).
program::Effect OptimizerUpdate(program::Elements parameters, program::Elements gradients,
                                program::Elements states, std::int64_t stride,
                                std::int64_t elements);

// Appends a contiguous move or update, or extends the last effect if the new effect continues it.
// Ignores empty effects.
void AppendJoined(std::vector<program::Effect>& effects, const program::Effect& effect);

// The groups in which a rank communicates. The model states are sharded over plan::ShardRanks
// neighboring ranks. With hybrid sharding, every shard has data / shard_group_size replicas.
// Context-parallel ranks are included in the data-parallel ranks.

struct ProcessGroups {
  int rank = 0;
  parallel::GroupLayout data;     // all data-parallel ranks
  parallel::GroupLayout shard;    // ranks that share one copy of the states
  parallel::GroupLayout replica;  // ranks with the same shard

  // Returns the shard group's name: "data" if the group contains all ranks, otherwise "shard".
  const char* shard_name() const { return replica.size() == 1 ? "data" : "shard"; }
  // Returns the rank's position in its shard group, which is the index of its shard.
  std::int64_t shard_index() const { return shard.Index(rank); }
};

// Returns the process groups of a rank for the tensors of parameter group `group`.
ProcessGroups ProcessGroupsOf(const parallel::Grids& grids, int rank,
                              model::ParameterGroup group = model::ParameterGroup::kDense);

}  // namespace stepcast::lowering
