#pragma once

#include <cstdint>
#include <span>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// Declares where the rank stores parameters from step to step: model elements [first, first +
// elements) are at `place`.
namespace stepcast::lowering {

void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// The same for the optimizer's arrays, which start `stride` elements apart: the master copy, if
// there is one, then the moments. All arrays have the type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

// What a rank has of the optimizer's states: arrays of `elements` elements each, which on all
// `ranks` ranks together have `exact` elements of the model. The excess over exact / ranks is
// padding.
struct StateExtent {
  std::int64_t elements = 0, exact = 0, ranks = 1;
};

// Describes a rank's buffer for the optimizer's states: arrays of equal length or, if an
// optimizer's moments depend on a tensor's shape (not plan::HasEqualMoments), bytes for these
// `tensors` without a data flow.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, const StateExtent& extent,
                         std::span<const UpdatedTensor> tensors);

}  // namespace stepcast::lowering
