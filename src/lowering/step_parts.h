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

// Returns a kernel such as a copy, cast or addition. Its cost follows from the bytes read and
// written.
inline Kernel MemoryKernel(std::string name, DataType type, Bytes read, Bytes written) {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = type,
          .read = read,
          .written = written};
}

// Memory that every real framework uses in addition to its sharding strategy.

// Workspaces of the matrix libraries, which live as long as the process:
//
//  * PyTorch has one for each cuBLAS handle and stream (aten/src/ATen/cuda/CublasHandlePool.cpp).
//    Handles belong to threads, and autograd's backward has its own thread, so there are two.
//    Deterministic ones (CUBLAS_WORKSPACE_CONFIG=:4096:8) have eight buffers of 4 MiB each.
//  * Transformer Engine's layers have their own: 32 MiB from Hopper on, otherwise 4 MiB
//    (transformer_engine/pytorch/module/base.py, get_cublas_workspace_size_bytes).
//
// Peaks printed by Megatron-LM's functional tests agree with these to 1.1 MB (golden values of
// gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer, A100 and H100, deterministic). Does
// nothing without a GPU or without matrix products (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step);

// Effects of operations on values (src/program/data_flow.h).

// Returns the place of a buffer's elements of `type`, from element `first` on.
inline program::Elements At(program::Index buffer, std::int64_t first, DataType type) {
  return {.buffer = buffer, .offset = BytesOf(first, type), .type = type};
}

// `place`, moved forward by `elements`.
inline program::Elements Further(program::Elements place, std::int64_t elements) {
  place.offset += BytesOf(elements, place.type);
  return place;
}

// target = source, converted; both contiguous.
program::Effect Move(program::Elements target, program::Elements source, std::int64_t elements);
// target += source.
program::Effect Added(program::Effect move);
// target = scale x source.
program::Effect Scaled(double scale, program::Effect move);
// Divides a move into blocks of `block` elements. The strides are the distances between the starts
// of blocks, in the target and in the source.
program::Effect InBlocks(program::Effect move, std::int64_t block, std::int64_t target_stride,
                         std::int64_t source_stride);

// Returns the effect of a collective. `elements` is the size of the whole, over all ranks.
program::Effect Collected(program::Elements target, program::Elements source,
                          std::int64_t elements);

// number = (or +=, if `add`) scale x the sum of the squares of `elements` elements.
program::Effect Squares(program::Elements number, program::Elements source, std::int64_t elements,
                        bool add, double scale = 1);
// Scales `target` down to a norm of at most `limit`. `squares` is the place of the square of its
// present norm.
program::Effect Clipped(program::Elements target, program::Elements squares, std::int64_t elements,
                        double limit);

// `states` is the place of the first of several arrays of one type, which are `stride` elements
// apart (program/data_flow.h).
program::Effect OptimizerUpdate(program::Elements parameters, program::Elements gradients,
                                program::Elements states, std::int64_t stride,
                                std::int64_t elements);

// Appends a contiguous move or update. If the effect continues the last one, extends the last one
// instead. Empty effects are ignored.
void AppendJoined(std::vector<program::Effect>& effects, const program::Effect& effect);

// The groups that a rank communicates in. Model states are sharded over plan::ShardRanks
// neighboring ranks, and every shard is replicated data / shard_group_size times (hybrid sharding
// if there are several replicas). Context-parallel ranks count as data-parallel ones.

struct ProcessGroups {
  int rank = 0;
  parallel::GroupLayout data;     // all data-parallel ranks
  parallel::GroupLayout shard;    // ranks that share one copy of the states
  parallel::GroupLayout replica;  // ranks that hold the same shard

  // The shard group's name: "data" if it contains all ranks.
  const char* shard_name() const { return replica.size() == 1 ? "data" : "shard"; }
  // The rank's position in its shard group, which is also the index of its shard.
  std::int64_t shard_index() const { return shard.Index(rank); }
};

// Returns the process groups of a rank for the tensors of parameter group `group`.
ProcessGroups ProcessGroupsOf(const parallel::Grids& grids, int rank,
                              model::ParameterGroup group = model::ParameterGroup::kDense);

}  // namespace stepcast::lowering
