#include "src/lowering/model_state.h"

#include "src/lowering/step_parts.h"
#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {

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
                               program::Category::kOptimizer, extent.exact * arrays.count,
                               extent.ranks);
  }
  constexpr DataType kByte = DataType::kFp8;
  static_assert(SizeOf(kByte) == 1);
  Bytes bytes;
  for (const UpdatedTensor& updated : tensors) {
    bytes += plan::OptimizerStateBytes(
        step.plan(),
        plan::OptimizerTensorOf(step.plan(), step.model(), updated.tensor, updated.elements));
  }
  return operations.AddRange(name, bytes.count(), kByte, program::Category::kOptimizer);
}

}  // namespace stepcast::lowering
