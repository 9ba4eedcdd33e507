#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// The algorithms as papers describe them, without the costs of a program that runs them.
inline constexpr FrameworkStyle kReferenceStyle{.lamb = true,
                                                .divides_adapters = true,
                                                .layers = {.norm = model::Implementation::kFused,
                                                           .rotary = model::Implementation::kFused,
                                                           .fused_router = true,
                                                           .fused_permutation = true}};

const FrameworkPolicy& ReferencePolicy();  // reference.cc

}  // namespace stepcast::plan
