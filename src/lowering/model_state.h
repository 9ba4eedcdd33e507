#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// The state that a rank keeps between steps: parameters and optimizer arrays.
namespace stepcast::lowering {

// Declares that the model's elements [first, first + elements) are parameters stored at `place`.
void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// Declares where the rank stores the optimizer's arrays for the model's elements [first, first +
// elements): the master copy, if there is one, and then the moments. The starts of consecutive
// arrays are `stride` elements apart. The arrays have the type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

// The size of a rank's optimizer states. Each array has `elements` elements on this rank, including
// padding, and `exact` model elements on all `ranks` ranks together.
struct StateExtent {
  std::int64_t elements = 0, exact = 0, ranks = 1;
};

// Adds a buffer for a rank's optimizer states, which are arrays of equal length. If the moments
// depend on tensor shapes (plan::HasEqualMoments is false), the size is computed from `tensors`,
// and the buffer has no data flow.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, const StateExtent& extent,
                         std::span<const UpdatedTensor> tensors);

// The state of a sharded unit on one rank: the rank's part of the parameters, of the optimizer's
// arrays and, between backward and update, of the reduced gradients. Parameters, arrays and
// gradients have the same layout.
struct ShardedState {
  std::int64_t elements = 0;  // including padding
  Range parameters{}, optimizer{}, gradient{};
  model::ParameterGroup group = model::ParameterGroup::kDense;
  bool has_gradient = false;  // whether the gradient exists; WriteShardedUpdate releases it
  Pieces parts{};
  std::vector<UpdatedTensor> updated{};  // the tensors that the optimizer updates
};

// Adds the three buffers, with names that start with `name`, and allocates all except the gradient
// on the compute stream. With cpu_offload, the optimizer's arrays are on the host, and the other
// buffers are on the device only during copies.
//
// The shard has `elements` elements, including padding. All `ranks` shards together have `exact`
// model elements. `parts` may be empty without a data flow. Gradients have the parameters' type.
// `updated` are the tensors that the optimizer updates.
ShardedState AddShardedState(TrainingStep& step, Operations& operations, Index name,
                             std::int64_t elements, std::int64_t exact, std::int64_t ranks,
                             Pieces parts, std::vector<UpdatedTensor> updated);

// Clips the gradients and writes the framework's update of all shards, in the order of the model's
// tensors. The gradients are in `gradient_tensors` tensors. `exchange` specifies how Muon assembles
// matrices. The `gradient_streams`, which computed the gradients, wait for the event `updated`.
// Then the gradients are released (zero_grad(set_to_none=True)).
void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors,
                        const MatrixExchange& exchange = {});

// Updates a shard on `stream` during backward, when its gradient is ready
// (training.optimizer_in_backward). Each parameter has a separate optimizer, which runs in a hook
// of the parameter (torchtitan/components/optimizer.py, OptimizersInBackwardContainer;
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce). The gradient is not
// released.
void WriteUpdateInBackward(TrainingStep& step, const ShardedState& state, StreamId stream);

}  // namespace stepcast::lowering
