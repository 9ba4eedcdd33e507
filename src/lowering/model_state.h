#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// The state that a rank keeps from step to step: parameters and the optimizer's arrays.
namespace stepcast::lowering {

// Declares where the rank stores parameters: model elements [first, first + elements) are at
// `place`.
void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// Declares where the rank stores the optimizer's arrays for these model elements. The arrays start
// `stride` elements apart: the master copy, if there is one, then the moments. All arrays have the
// type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

// The extent of a rank's optimizer states. Each array has `elements` elements. On all `ranks` ranks
// together, an array has `exact` elements of the model. The excess over exact / ranks is padding.
struct StateExtent {
  std::int64_t elements = 0, exact = 0, ranks = 1;
};

// Describes a rank's buffer for the optimizer's states, which are arrays of equal length. If an
// optimizer's moments depend on a tensor's shape (not plan::HasEqualMoments), the buffer is
// described as bytes for these `tensors`, without a data flow.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, const StateExtent& extent,
                         std::span<const UpdatedTensor> tensors);

// The state of a sharded unit that a rank keeps: its part of the parameters, of the optimizer's
// arrays and, from backward to the update, of the reduced gradients. All three have the same
// layout.
struct ShardedState {
  std::int64_t elements = 0;  // with padding
  Range parameters{}, optimizer{}, gradient{};
  model::ParameterGroup group = model::ParameterGroup::kDense;
  bool has_gradient = false;  // the gradient exists; WriteShardedUpdate uses and releases it
  Pieces parts{};
  std::vector<UpdatedTensor> updated{};  // the optimizer's tensors
};

// Describes the three buffers, whose names start with the text `name`. Allocates all but the
// gradient on the compute stream. With cpu_offload, the optimizer's arrays are on the host; the
// other two buffers are on the device only during copies. The shard has `elements` elements, and
// all `ranks` shards together contain `exact` elements of the model. The excess over exact / ranks
// is padding. `parts` may be empty without data flow. Gradients are stored in the parameters' type.
// `updated` are the tensors that the optimizer updates.
ShardedState AddShardedState(TrainingStep& step, Operations& operations, Index name,
                             std::int64_t elements, std::int64_t exact, std::int64_t ranks,
                             Pieces parts, std::vector<UpdatedTensor> updated);

// Writes the framework's update of all shards, in the order of the model's tensors, after gradient
// clipping. `gradient_tensors` is the number of tensors in which the framework stores the
// gradients. `exchange` describes how Muon assembles matrices. The `gradient_streams`, on which the
// gradients were computed, wait for the update through the event `updated`. Then the gradients are
// released (zero_grad(set_to_none=True)).
void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors,
                        const MatrixExchange& exchange = {});

// Updates a shard on `stream` as soon as its gradient is ready, in backward
// (training.optimizer_in_backward). Each parameter has its own optimizer, run by a hook of the
// parameter (torchtitan/components/optimizer.py, OptimizersInBackwardContainer;
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce). The gradient is not
// released.
void WriteUpdateInBackward(TrainingStep& step, const ShardedState& state, StreamId stream);

}  // namespace stepcast::lowering
