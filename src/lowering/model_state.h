#pragma once

#include <cstdint>

#include "src/lowering/training_step.h"

// Says where the model's state lies that a rank keeps from step to step, for the model elements
// [first, first + elements).
namespace stepcast::lowering {

void AddParameterState(TrainingStep& step, const program::Elements& place, std::int64_t first,
                       std::int64_t elements);

// The optimizer's arrays, `stride` elements after one another: the master copy, where it keeps one,
// then the moments. All are of the type of `states`.
void AddOptimizerState(TrainingStep& step, const program::Elements& states, std::int64_t stride,
                       std::int64_t first, std::int64_t elements);

}  // namespace stepcast::lowering
