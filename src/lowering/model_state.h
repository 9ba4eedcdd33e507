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

// Bytes of the optimizer's states for these tensors. Only for optimizers whose moments depend on a
// tensor's shape (not plan::HasEqualMoments).
Bytes OptimizerStateBytes(const TrainingStep& step, std::span<const UpdatedTensor> tensors);

// Describes a rank's buffer for these optimizer states. It has no data flow, and its elements are
// bytes.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, std::span<const UpdatedTensor> tensors);

}  // namespace stepcast::lowering
