#include "src/lowering/step_parts.h"

#include "src/base/bytes.h"
#include "src/plan/plan.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {
namespace {

using program::Category;

constexpr int kHopper = 90;

Bytes TransformerEngineWorkspace(int compute_capability) {
  return Bytes(compute_capability >= kHopper ? 32 << 20 : 4 << 20);
}

}  // namespace

void AllocateFrameworkWorkspaces(TrainingStep& step) {
  const scenario::Scenario& scenario = step.scenario();
  const auto& memory = scenario.calibration->memory;
  if (!memory || memory->gemm_workspace == Bytes(0) || step.model().is_layer_list()) return;
  const plan::Training& training = step.plan().training;
  const auto allocate = [&](const char* name, Bytes size) {
    step.builder().Allocate(step.compute(),
                            step.builder().AddBuffer(name, size, Category::kWorkspace));
  };
  const Bytes size =
      training.deterministic ? plan::kDeterministicWorkspace : memory->gemm_workspace;
  allocate("cuBLAS workspace of forward", size);
  allocate("cuBLAS workspace of backward", size);
  const int capability = scenario.gpu ? scenario.gpu->compute_capability : 0;
  if (capability > 0 && plan::HasTransformerEngine(training)) {
    allocate("Transformer Engine's workspace", TransformerEngineWorkspace(capability));
  }
}

using program::Effect;
using program::EffectKind;
using program::Elements;

Effect Move(Elements target, Elements source, std::int64_t elements) {
  return {.kind = EffectKind::kMove,
          .target = target,
          .source = source,
          .elements = elements,
          .block = elements};
}

Effect Added(Effect move) {
  move.add = true;
  return move;
}

Effect Scaled(double scale, Effect move) {
  move.scale = scale;
  return move;
}

Effect InBlocks(Effect move, std::int64_t block, std::int64_t target_stride,
                std::int64_t source_stride) {
  if (move.elements <= block) return move;
  move.block = block;
  move.target_stride = target_stride;
  move.source_stride = source_stride;
  return move;
}

Effect Collected(Elements target, Elements source, std::int64_t elements) {
  return {
      .kind = EffectKind::kCollective, .target = target, .source = source, .elements = elements};
}

Effect Squares(Elements number, Elements source, std::int64_t elements, bool add, double scale) {
  return {.kind = EffectKind::kSquares,
          .add = add,
          .target = number,
          .source = source,
          .elements = elements,
          .scale = scale};
}

Effect Clipped(Elements target, Elements squares, std::int64_t elements, double limit) {
  return {.kind = EffectKind::kClip,
          .target = target,
          .source = squares,
          .elements = elements,
          .scale = limit};
}

Effect OptimizerUpdate(Elements parameters, Elements gradients, Elements states,
                       std::int64_t stride, std::int64_t elements) {
  return {.kind = EffectKind::kUpdate,
          .target = parameters,
          .source = gradients,
          .states = states,
          .state_stride = stride,
          .elements = elements};
}

void AppendJoined(std::vector<Effect>& effects, const Effect& effect) {
  if (effect.elements == 0) return;
  const auto goes_on = [](const Elements& last, std::int64_t elements, const Elements& next) {
    return last.buffer == next.buffer && last.type == next.type &&
           Further(last, elements).offset == next.offset;
  };
  if (!effects.empty()) {
    Effect& last = effects.back();
    const bool contiguous = last.block == (last.kind == EffectKind::kMove ? last.elements : 0) &&
                            effect.block == (last.kind == EffectKind::kMove ? effect.elements : 0);
    if (contiguous && last.kind == effect.kind && last.add == effect.add &&
        last.scale == effect.scale && last.state_stride == effect.state_stride &&
        goes_on(last.target, last.elements, effect.target) &&
        goes_on(last.source, last.elements, effect.source) &&
        (last.kind != EffectKind::kUpdate || goes_on(last.states, last.elements, effect.states))) {
      last.elements += effect.elements;
      if (last.kind == EffectKind::kMove) last.block = last.elements;
      return;
    }
  }
  effects.push_back(effect);
}

ProcessGroups ProcessGroupsOf(const parallel::Grids& grids, int rank, model::ParameterGroup group) {
  const plan::GroupAxes axes = plan::AxesOf(group);
  return {.rank = rank,
          .data = grids.Layout(axes.gradients),
          .shard = grids.Layout(axes.states),
          .replica = grids.Layout(axes.replicas)};
}

}  // namespace stepcast::lowering
