#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// What a rank keeps of a unit whose states are sharded: its part of the parameters, of the
// optimizer's arrays and, from backward to the update, of the reduced gradients, all three laid out
// alike.
namespace stepcast::lowering {

struct ShardedState {
  std::int64_t elements = 0;  // with padding
  Range parameters{}, optimizer{}, gradient{};
  model::ParameterGroup group = model::ParameterGroup::kDense;
  bool has_gradient = false;  // the gradient is there: WriteShardedUpdate uses and releases it
  Pieces parts{};
  std::vector<UpdatedTensor> updated{};  // tensors as the optimizer has them
};

// Describes the three buffers, whose names begin with the text `name`, and allocates all but the
// gradient on the compute stream; with cpu_offload the optimizer's is the host's, and the others
// are on the device in passing, for copies. The shard has `elements` elements, which stand for
// `exact` elements of the model over all `ranks`: what is more than exact / ranks is padding.
// `parts` may be empty where no data flow is described. Gradients are kept in the type of the
// parameters. `updated`: the tensors that the optimizer has there.
ShardedState AddShardedState(TrainingStep& step, Operations& operations, Index name,
                             std::int64_t elements, std::int64_t exact, std::int64_t ranks,
                             Pieces parts, std::vector<UpdatedTensor> updated);

// The framework's update of all shards, in the order of the model's tensors; before it, their
// gradients are clipped, which the framework has in `gradient_tensors` tensors. `exchange`: how
// Muon puts matrices together. `gradient_streams`
// made the gradients: they wait for the update before the gradients are released
// (zero_grad(set_to_none=True)); `updated` carries it.
void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors,
                        const MatrixExchange& exchange = {});

// Updates a shard on `stream` as soon as its gradient is there, in backward
// (training.optimizer_in_backward): each parameter has an optimizer of its own, which a hook of the
// parameter runs (torchtitan/components/optimizer.py, OptimizersInBackwardContainer;
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce). The gradient is still
// there afterwards.
void WriteUpdateInBackward(TrainingStep& step, const ShardedState& state, StreamId stream);

}  // namespace stepcast::lowering
