#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// Hugging Face's nanotron.
inline constexpr FrameworkStyle kNanotronStyle{
    .stage_split = StageSplit::kByWeights,
    .fp32_states =
        "nanotron's gradient accumulator keeps FP32 master weights, and moments with them",
    .gradients = GradientStore::kAccumulators};

const FrameworkPolicy& NanotronPolicy();  // nanotron.cc

}  // namespace stepcast::plan
