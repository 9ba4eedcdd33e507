#include "src/lowering/sharded_state.h"

#include <algorithm>
#include <utility>

#include "src/lowering/effects.h"
#include "src/lowering/model_state.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Category;

ShardedState AddShardedState(TrainingStep& step, Index name, std::int64_t elements,
                             std::int64_t exact, std::int64_t ranks, std::vector<ShardPart> parts) {
  const plan::Training& training = step.plan().training;
  ProgramBuilder& builder = step.builder();
  const auto add = [&](const char* what, std::int64_t bytes, Category category) {
    const std::int64_t size = elements * bytes;
    return builder.AddBuffer(builder.Named(name, what), Bytes(size), category,
                             Bytes(size - exact * bytes / ranks));
  };
  ShardedState state{.elements = elements, .parts = std::move(parts)};
  const std::int64_t kept = SizeOf(training.parameter_dtype);
  state.parameters = add("/parameter shard", kept, Category::kParameter);
  builder.Allocate(step.compute(), state.parameters);
  state.optimizer =
      add("/optimizer shard", plan::OptimizerBytesPerParameter(training), Category::kOptimizer);
  builder.Allocate(step.compute(), state.optimizer);
  state.gradient = add("/gradient shard", kept, Category::kGradient);
  for (const ShardPart& part : state.parts) {
    const std::int64_t first = step.first_element(part.tensor) + part.first;
    AddParameterState(step, Further(ParameterShard(step, state), part.offset), first,
                      part.elements);
    AddOptimizerState(step, At(state.optimizer, part.offset, DataType::kFp32), elements, first,
                      part.elements);
  }
  return state;
}

program::Elements ParameterShard(const TrainingStep& step, const ShardedState& state) {
  return At(state.parameters, 0, step.plan().training.parameter_dtype);
}

program::Elements GradientShard(const TrainingStep& step, const ShardedState& state) {
  return At(state.gradient, 0, step.plan().training.parameter_dtype);
}

void WriteShardedUpdate(TrainingStep& step, std::span<ShardedState* const> states,
                        std::span<const StreamId> gradient_streams, Index updated,
                        GradientClipping& clipping, std::int64_t gradient_tensors) {
  ProgramBuilder& builder = step.builder();
  std::int64_t elements = 0;
  std::vector<UpdatedTensor> tensors;
  std::vector<BufferUse> uses;
  std::vector<program::Effect> updates;
  std::vector<BufferUse> gradients;
  std::vector<ClippedRange> clipped;
  for (const ShardedState* state : states) {
    elements += state->elements;
    tensors.insert(tensors.end(), state->updated.begin(), state->updated.end());
    if (state->has_gradient) {
      gradients.push_back(builder.ReadsAll(state->gradient));
      uses.push_back(gradients.back());
    }
    uses.push_back(builder.WritesAll(state->parameters));
    uses.push_back(builder.WritesAll(state->optimizer));
    for (const ShardPart& part : state->parts) {
      if (part.elements > 0) {
        clipped.push_back({Further(GradientShard(step, *state), part.offset), part.elements});
      }
      AppendJoined(updates, OptimizerUpdate(Further(ParameterShard(step, *state), part.offset),
                                            Further(GradientShard(step, *state), part.offset),
                                            At(state->optimizer, part.offset, DataType::kFp32),
                                            state->elements, part.elements));
    }
  }
  clipping.Write(gradient_tensors, elements, step.plan().training.parameter_dtype, gradients,
                 clipped);
  std::stable_sort(
      tensors.begin(), tensors.end(),
      [](const UpdatedTensor& a, const UpdatedTensor& b) { return a.tensor < b.tensor; });
  WriteFrameworkUpdate(step, step.plan().training, {elements, std::move(tensors)}, uses, updates);
  builder.Record(step.compute(), updated);
  for (const StreamId stream : gradient_streams) builder.Wait(stream, updated);
  for (ShardedState* state : states) {
    if (!state->has_gradient) continue;
    builder.Release(state->gradient);
    state->has_gradient = false;
  }
}

}  // namespace stepcast::lowering
