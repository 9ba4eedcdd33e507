#include "src/runtime/cuda/effect_launches.h"

#include <algorithm>
#include <tuple>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/cuda/failure.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Index;
using program::Instruction;

}  // namespace

Attempt<std::unique_ptr<EffectLaunches>> EffectLaunches::Make(const Setting& setting) {
  std::unique_ptr<EffectLaunches> launches(new EffectLaunches(setting));
  const program::DataFlow& flow = setting.program.data_flow;
  launches->partial_sums_.assign(setting.streams.size(), nullptr);
  for (std::size_t i = 0; i + 1 < flow.first.size(); ++i) {
    double*& sums = launches->partial_sums_[setting.program.step[i].stream];
    for (Index e = flow.first[i]; e < flow.first[i + 1] && sums == nullptr; ++e) {
      if (flow.effects[e].kind != EffectKind::kSquares) continue;
      constexpr Bytes kSize(kPartialSums * sizeof(double));
      STEPCAST_TRY(Check(cudaMalloc(&sums, static_cast<std::size_t>(kSize.count())),
                         "allocating memory for sums"));
      launches->size_ += kSize;
    }
  }
  return launches;
}

EffectLaunches::~EffectLaunches() {
  for (double* sums : partial_sums_) cudaFree(sums);
}

Attempt<void> EffectLaunches::Preload(float* number) const {
  const char* doing = "loading kernels";
  const cudaStream_t own = setting_.streams[0];
  const program::DataFlow& flow = setting_.program.data_flow;
  for (const program::StatePart& part : flow.state) {
    STEPCAST_TRY(Check(LaunchInitialValues(nullptr, part.place.type, 0, 0, 0, own), doing));
  }
  std::vector<std::tuple<EffectKind, DataType, DataType>> launched;
  const auto is_new = [&](EffectKind kind, DataType target, DataType source) {
    const std::tuple key{kind, target, source};
    if (std::find(launched.begin(), launched.end(), key) != launched.end()) return false;
    launched.push_back(key);
    return true;
  };
  const auto move = [&](DataType target, DataType source) {
    if (target == source || !is_new(EffectKind::kMove, target, source)) return cudaSuccess;
    const MoveWork nothing;
    return LaunchMoves({&nothing, 1}, {target, source}, own);
  };
  for (std::size_t i = 0; i + 1 < flow.first.size(); ++i) {
    const Instruction& instruction = setting_.program.step[i];
    for (Index e = flow.first[i]; e < flow.first[i + 1]; ++e) {
      const Effect& effect = flow.effects[e];
      if (effect.kind == EffectKind::kCollective) {
        const DataType sent = setting_.program.collectives[instruction.operand].data_type;
        STEPCAST_TRY(Check(move(sent, effect.source.type), doing));
        STEPCAST_TRY(Check(move(effect.target.type, sent), doing));
        continue;
      }
      if (!is_new(effect.kind, effect.target.type, effect.source.type)) continue;
      // An effect without elements reads and writes nothing, except for a sum and a norm.
      const TypePair types{effect.target.type, effect.source.type};
      const StepSource step{.now = StepValuesOf(0)};
      cudaError_t error = cudaSuccess;
      switch (effect.kind) {
        case EffectKind::kGradient: {
          const GradientWork nothing;
          error = LaunchGradients({&nothing, 1}, types, {.rule = setting_.gradients}, step, own);
          break;
        }
        case EffectKind::kMove: {
          const MoveWork nothing;
          error = LaunchMoves({&nothing, 1}, types, own);
          break;
        }
        case EffectKind::kUpdate: {
          const UpdateWork nothing;
          error = LaunchUpdates({&nothing, 1}, types, effect.states.type, flow.adamw, step, own);
          break;
        }
        case EffectKind::kSquares: {
          const SquaresWork nothing{.target = number};
          error =
              LaunchSquares({&nothing, 1}, types.source, partial_sums_[instruction.stream], own);
          break;
        }
        case EffectKind::kClip: {
          const ClipWork nothing{.squares = number};
          error = LaunchClips({&nothing, 1}, types.target, own);
          break;
        }
        case EffectKind::kMix: {
          const MixWork nothing{.target = reinterpret_cast<std::uint32_t*>(number)};
          error = LaunchMixes({&nothing, 1}, {.rule = setting_.gradients}, step, own);
          break;
        }
        case EffectKind::kCollective:
          break;
      }
      STEPCAST_TRY(Check(error, doing));
    }
  }
  return {};
}

Attempt<void> EffectLaunches::Launch(Index first, Index last, OperationId operation,
                                     const Instruction& instruction, const StepSource& step) const {
  const std::span<const Effect> effects = setting_.program.data_flow.effects;
  for (Index b = first; b < last; ++b) {
    const EffectBatch& batch = setting_.plan.batches[b];
    const cudaError_t error = LaunchBatch(effects.subspan(batch.first, batch.count),
                                          instruction.micro_batch, instruction.stream, step);
    if (error == cudaSuccess) continue;
    return Check(error, fmt::format("starting instruction {} of step {}", operation.instruction,
                                    operation.step));
  }
  return {};
}

GradientWork EffectLaunches::GradientWorkOf(const Effect& effect) const {
  return {.target = At(effect.target),
          .source = At(effect.source),
          .elements = effect.elements,
          .first_element = effect.first_element,
          .scale = static_cast<float>(effect.scale),
          .add = effect.add,
          .seed = reinterpret_cast<const std::uint32_t*>(At(effect.states))};
}

MoveWork EffectLaunches::MoveWorkOf(const Effect& effect) const {
  return {.target = At(effect.target),
          .source = At(effect.source),
          .elements = effect.elements,
          .block = effect.block,
          .target_stride = effect.target_stride,
          .source_stride = effect.source_stride,
          .scale = static_cast<float>(effect.scale),
          .add = effect.add};
}

UpdateWork EffectLaunches::UpdateWorkOf(const Effect& effect) const {
  return {.parameters = At(effect.target),
          .gradients = At(effect.source),
          .states = At(effect.states),
          .elements = effect.elements,
          .state_stride = effect.state_stride};
}

SquaresWork EffectLaunches::SquaresWorkOf(const Effect& effect) const {
  return {.target = reinterpret_cast<float*>(At(effect.target)),
          .source = At(effect.source),
          .elements = effect.elements,
          .scale = static_cast<float>(effect.scale),
          .add = effect.add};
}

ClipWork EffectLaunches::ClipWorkOf(const Effect& effect) const {
  return {.target = At(effect.target),
          .squares = reinterpret_cast<const float*>(At(effect.source)),
          .elements = effect.elements,
          .limit = static_cast<float>(effect.scale)};
}

MixWork EffectLaunches::MixWorkOf(const Effect& effect) const {
  return {.target = reinterpret_cast<std::uint32_t*>(At(effect.target)),
          .source = reinterpret_cast<const std::uint32_t*>(At(effect.source)),
          .also = reinterpret_cast<const std::uint32_t*>(At(effect.states)),
          .salt = effect.first_element,
          .batch_part = static_cast<int>(effect.batch_part)};
}

cudaError_t EffectLaunches::LaunchBatch(std::span<const Effect> effects, int micro_batch,
                                        std::uint16_t stream, const StepSource& step) const {
  const cudaStream_t own = setting_.streams[stream];
  const TypePair types{effects.front().target.type, effects.front().source.type};
  const auto works_of = [&]<typename Work>(Work (EffectLaunches::*work_of)(const Effect&) const) {
    std::vector<Work> works;
    works.reserve(effects.size());
    for (const Effect& effect : effects) works.push_back((this->*work_of)(effect));
    return works;
  };
  const GradientOrigin origin{
      .rule = setting_.gradients, .rank = setting_.rank, .micro_batch = micro_batch};
  switch (effects.front().kind) {
    case EffectKind::kGradient:
      return LaunchGradients(works_of(&EffectLaunches::GradientWorkOf), types, origin, step, own);
    case EffectKind::kMove:
      return LaunchMoves(works_of(&EffectLaunches::MoveWorkOf), types, own);
    case EffectKind::kUpdate:
      return LaunchUpdates(works_of(&EffectLaunches::UpdateWorkOf), types,
                           effects.front().states.type, setting_.program.data_flow.adamw, step,
                           own);
    case EffectKind::kSquares:
      return LaunchSquares(works_of(&EffectLaunches::SquaresWorkOf), types.source,
                           partial_sums_[stream], own);
    case EffectKind::kClip:
      return LaunchClips(works_of(&EffectLaunches::ClipWorkOf), types.target, own);
    case EffectKind::kMix:
      return LaunchMixes(works_of(&EffectLaunches::MixWorkOf), origin, step, own);
    case EffectKind::kCollective:
      break;
  }
  STEPCAST_CHECK(false, "only a collective communicates");
  return cudaErrorInvalidValue;
}

}  // namespace stepcast::runtime::cuda
