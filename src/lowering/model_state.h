#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// The state that a rank keeps from step to step: parameters and the arrays of the optimizer.
namespace stepcast::lowering {

// Declares that the model's elements [first, first + elements) are parameters stored at `place`.
void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// Declares where the rank stores the optimizer's arrays for the model's elements [first, first +
// elements). The arrays are the master copy, if there is one, and then the moments; their starts
// are `stride` elements apart. All arrays have the type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

// The extent of a rank's optimizer states. Each array has `elements` elements on this rank. On all
// `ranks` ranks together, an array has `exact` elements of the model, and the elements beyond exact
// / ranks are padding.
struct StateExtent {
  std::int64_t elements = 0, exact = 0, ranks = 1;
};

// Describes a rank's buffer for the optimizer's states, which are arrays of equal length. If an
// optimizer's moments depend on a tensor's shape (not plan::HasEqualMoments), the buffer is
// described as bytes for these `tensors`, without a data flow.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, const StateExtent& extent,
                         std::span<const UpdatedTensor> tensors);

// The state of a sharded unit that a rank keeps: its part of the parameters and of the optimizer's
// arrays. From backward to the update, it also keeps its part of the reduced gradients. All three
// parts have the same layout.
struct ShardedState {
  std::int64_t elements = 0;  // with padding
  Range parameters{}, optimizer{}, gradient{};
  model::ParameterGroup group = model::ParameterGroup::kDense;
  bool has_gradient = false;  // the gradient exists; WriteShardedUpdate uses and releases it
  Pieces parts{};
  std::vector<UpdatedTensor> updated{};  // the optimizer's tensors
};

// Describes the three buffers, whose names start with the text `name`, and allocates all but the
// gradient on the compute stream. With cpu_offload, the optimizer's arrays are on the host, and the
// other two buffers are on the device only during copies.
//
// The shard has `elements` elements. All `ranks` shards together contain `exact` elements of the
// model, and the elements beyond exact / ranks are padding. `parts` may be empty without a data
// flow. Gradients are stored in the parameters' type. `updated` are the tensors that the optimizer
// updates.
ShardedState AddShardedState(TrainingStep& step, Operations& operations, Index name,
                             std::int64_t elements, std::int64_t exact, std::int64_t ranks,
                             Pieces parts, std::vector<UpdatedTensor> updated);

// Writes the framework's update of all shards, in the order of the model's tensors, after gradient
// clipping. The framework stores the gradients in `gradient_tensors` tensors. `exchange` describes
// how Muon assembles matrices. The `gradient_streams`, which computed the gradients, wait for the
// update through the event `updated`. Then the gradients are released
// (zero_grad(set_to_none=True)).
void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors,
                        const MatrixExchange& exchange = {});

// Updates a shard on `stream` during backward, as soon as its gradient is ready
// (training.optimizer_in_backward). Each parameter has a separate optimizer, which a hook of the
// parameter runs (torchtitan/components/optimizer.py, OptimizersInBackwardContainer;
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce). The gradient is not
// released.
void WriteUpdateInBackward(TrainingStep& step, const ShardedState& state, StreamId stream);

}  // namespace stepcast::lowering
