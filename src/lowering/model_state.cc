#include "src/lowering/model_state.h"

#include <algorithm>
#include <utility>

#include "src/lowering/step_parts.h"
#include "src/lowering/update.h"
#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {

using program::Category;
using program::Elements;
using program::StateRole;

void AddParameterState(TrainingStep& step, const Elements& place, std::int64_t first,
                       std::int64_t elements) {
  step.builder().AddState({StateRole::kParameter, place, first, elements});
}

void AddOptimizerState(TrainingStep& step, const Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements) {
  const std::int64_t arrays = plan::OptimizerArraysOf(step.plan().training).count;
  const bool master = plan::KeepsMasterWeights(step.plan().training);
  for (std::int64_t array = 0; array < arrays; ++array) {
    const StateRole role = array == 0 && master ? StateRole::kMaster : StateRole::kMoment;
    step.builder().AddState({role, Further(states, array * stride), first, elements});
  }
}

Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, const StateExtent& extent,
                         std::span<const UpdatedTensor> tensors) {
  const plan::Training& training = step.plan().training;
  if (plan::HasEqualMoments(training.optimizer)) {
    const plan::OptimizerArrays arrays = plan::OptimizerArraysOf(training);
    return operations.AddShard(name, extent.elements * arrays.count, arrays.type,
                               Category::kOptimizer, extent.exact * arrays.count, extent.ranks);
  }
  constexpr DataType kByte = DataType::kFp8;
  static_assert(SizeOf(kByte) == 1);
  Bytes bytes;
  for (const UpdatedTensor& updated : tensors) {
    bytes += plan::OptimizerStateBytes(
        step.plan(),
        plan::OptimizerTensorOf(step.plan(), step.model(), updated.tensor, updated.elements));
  }
  return operations.AddRange(name, bytes.count(), kByte, Category::kOptimizer);
}

ShardedState AddShardedState(TrainingStep& step, Operations& operations, Index name,
                             std::int64_t elements, std::int64_t exact, std::int64_t ranks,
                             Pieces parts, std::vector<UpdatedTensor> updated) {
  const plan::Training& training = step.plan().training;
  ProgramBuilder& builder = step.builder();
  const auto add = [&](const char* what, Category category) {
    return operations.AddShard(builder.Named(name, what), elements, training.parameter_dtype,
                               category, exact, ranks);
  };
  ShardedState state{
      .elements = elements, .parts = std::move(parts), .updated = std::move(updated)};
  state.parameters = add("/parameter shard", Category::kParameter);
  state.gradient = add("/gradient shard", Category::kGradient);
  if (step.plan().data_parallel.cpu_offload) return state;
  operations.Allocate(step.compute(), state.parameters);
  state.optimizer = AddOptimizerStates(step, operations, builder.Named(name, "/optimizer shard"),
                                       {elements, exact, ranks}, state.updated);
  operations.Allocate(step.compute(), state.optimizer);
  for (const Piece& part : state.parts) {
    const std::int64_t first = step.first_element(part.tensor) + part.first;
    AddParameterState(step, state.parameters.At(part.offset), first, part.elements);
    AddOptimizerState(step, state.optimizer.At(part.offset), elements, first, part.elements);
  }
  return state;
}

void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors,
                        const MatrixExchange& exchange) {
  ProgramBuilder& builder = step.builder();
  UpdatedTensors tensors{.exchange = exchange};
  ParameterUpdate update(step);
  for (const ShardedState* state : states) {
    tensors.elements += state->elements;
    tensors.tensors.insert(tensors.tensors.end(), state->updated.begin(), state->updated.end());
    if (state->has_gradient) update.ReadsGradients(state->gradient);
    update.WritesState(state->parameters);
    update.WritesState(state->optimizer);
    for (const Piece& piece : state->parts) {
      update.Updates(state->parameters.At(piece.offset), state->gradient.At(piece.offset),
                     state->optimizer.At(piece.offset), state->elements, piece.elements, true,
                     state->group);
    }
  }
  std::stable_sort(
      tensors.tensors.begin(), tensors.tensors.end(),
      [](const UpdatedTensor& a, const UpdatedTensor& b) { return a.tensor < b.tensor; });
  update.Write(clipping, gradient_tensors, step.plan().training.parameter_dtype, tensors);
  builder.Record(step.compute(), updated);
  for (const StreamId stream : gradient_streams) builder.Wait(stream, updated);
  for (ShardedState* state : states) {
    if (!state->has_gradient) continue;
    builder.Release(state->gradient.buffer());
    state->has_gradient = false;
  }
}

void WriteUpdateInBackward(TrainingStep& step, const ShardedState& state, StreamId stream) {
  std::vector<program::Effect> effects;
  if (step.builder().describes_data_flow()) {
    for (const Piece& piece : state.parts) {
      AppendJoined(effects, OptimizerUpdate(
                                state.parameters.At(piece.offset), state.gradient.At(piece.offset),
                                state.optimizer.At(piece.offset), state.elements, piece.elements));
    }
  }
  const program::BufferUse uses[] = {Reads(state.gradient), Writes(state.parameters),
                                     Writes(state.optimizer)};
  for (std::size_t i = 0; i < state.updated.size(); ++i) {
    const bool last = i + 1 == state.updated.size();
    UpdatedTensors own{
        .elements = state.updated[i].elements, .tensors = {state.updated[i]}, .stream = stream};
    WriteFrameworkUpdate(
        step, step.plan().training, own, uses,
        last ? std::span<const program::Effect>(effects) : std::span<const program::Effect>());
  }
}

}  // namespace stepcast::lowering
