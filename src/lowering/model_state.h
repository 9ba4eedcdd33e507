#pragma once

#include <cstdint>
#include <span>

#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"
#include "src/lowering/update.h"

// Says where the model's state lies that a rank keeps from step to step, for the model elements
// [first, first + elements).
namespace stepcast::lowering {

void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// The optimizer's arrays, `stride` elements after one another: the master copy, where it keeps one,
// then the moments. All are of the type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

// Bytes of the optimizer's states of tensors as the optimizer has them. Of optimizers whose moments
// depend on a tensor's shape (not plan::HasEqualMoments).
Bytes OptimizerStateBytes(const TrainingStep& step, std::span<const UpdatedTensor> tensors);

// Describes a rank's buffer of them. Such states have no values: its elements are bytes.
Range AddOptimizerStates(const TrainingStep& step, Operations& operations,
                         const program::NameParts& name, std::span<const UpdatedTensor> tensors);

}  // namespace stepcast::lowering
