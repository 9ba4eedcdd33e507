#pragma once

#include "src/plan/framework_traits.h"

namespace stepcast::plan {

// The algorithms as papers describe them, without the costs of a program that runs them.
inline constexpr FrameworkTraits kReferenceTraits{
    .name = "reference",
    .first_stage = 0,
    .last_stage = 3,
    .textbook = true,
    .searched_by_default = false,
    .pipelines = true,
    .tensor_parallel = true,
    .context_parallel = true,
    .fused_update = true,
    .lamb = true,
    .divides_adapters = true,
    .layers = {.norm = model::Implementation::kFused,
               .rotary = model::Implementation::kFused,
               .fused_router = true,
               .fused_permutation = true}};

}  // namespace stepcast::plan
