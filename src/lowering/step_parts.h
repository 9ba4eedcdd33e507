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
#include "src/plan/plan.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// A copy, a cast, an addition: what it takes is what it reads and writes.
inline Kernel MemoryKernel(std::string name, DataType type, Bytes read, Bytes written) {
  return {.name = std::move(name),
          .kind = KernelKind::kMemoryBound,
          .data_type = type,
          .read = read,
          .written = written};
}

// What every real framework has in memory beside its strategy.

// The matrix libraries' workspaces, for the life of the process:
//
// * PyTorch has one for each cuBLAS handle and stream (aten/src/ATen/cuda/CublasHandlePool.cpp).
//   Handles are those of threads, and autograd's backward has a thread of its own, so two;
//   deterministic ones (CUBLAS_WORKSPACE_CONFIG=:4096:8) have eight buffers of 4 MiB each.
// * Transformer Engine's layers have one of their own: 32 MiB from Hopper on, else 4 MiB
//   (transformer_engine/pytorch/module/base.py, get_cublas_workspace_size_bytes).
//
// Peaks that Megatron-LM's functional tests print agree to 1.1 MB with these (golden values of
// gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer, A100 and H100, deterministic).
// Nothing without a GPU or without matrix products (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step);

// Shorthands for what operations do to values (src/program/data_flow.h).

// From element `first` of a buffer of `type` on.
inline program::Elements At(program::Index buffer, std::int64_t first, DataType type) {
  return {.buffer = buffer, .offset = BytesOf(first, type), .type = type};
}

// `place`, `elements` further on.
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
// In blocks of `block` elements, with this many from the start of one to the start of the next.
program::Effect InBlocks(program::Effect move, std::int64_t block, std::int64_t target_stride,
                         std::int64_t source_stride);

// `elements`: of the collective's whole size.
program::Effect Collected(program::Elements target, program::Elements source,
                          std::int64_t elements);

// number = (or +=, if `add`) scale x the sum of the squares of `elements` elements.
program::Effect Squares(program::Elements number, program::Elements source, std::int64_t elements,
                        bool add, double scale = 1);
// target brought down to a norm of `limit`; `squares`: the square of the norm that it has.
program::Effect Clipped(program::Elements target, program::Elements squares, std::int64_t elements,
                        double limit);

// `states`: arrays of one type, `stride` elements after one another (program/data_flow.h).
program::Effect OptimizerUpdate(program::Elements parameters, program::Elements gradients,
                                program::Elements states, std::int64_t stride,
                                std::int64_t elements);

// Appends a contiguous move or an update; where it goes on exactly where the last one ended, that
// one is made longer instead. Empty ones are left out.
void AppendJoined(std::vector<program::Effect>& effects, const program::Effect& effect);

// The groups that a rank communicates in. The model states are sharded over plan::ShardRanks
// neighbouring ranks, and every shard is replicated data / shard_group_size times (hybrid sharding
// when there are several replicas). Ranks that have parts of a sequence are among them.

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
