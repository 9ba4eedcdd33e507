#pragma once

#include "src/plan/framework_traits.h"

namespace stepcast::plan {

// Hugging Face's nanotron.
inline constexpr FrameworkTraits kNanotronTraits{
    .name = "nanotron",
    .first_stage = 0,
    .last_stage = 1,
    .stages = "keeps full copies, which is stage 0, or shards the optimizer, which is stage 1",
    .other_stage = "zero_stage: 1 or 0, or framework: reference or fsdp2",
    .searched_by_default = false,
    .pipelines = true,
    .tensor_parallel = true,
    .engine = PipelineEngine::kMegatron,
    .stage_split = StageSplit::kByWeights,
    .fused_update = true,
    .fp32_states =
        "nanotron's gradient accumulator keeps FP32 master weights, and moments with them",
    .gradients = GradientStore::kAccumulators,
    .clipping = ClippingKernels::kTensorByTensor,
    .layers = {.fuses_products = true,
               .gathers_again = true,
               .experts = model::ExpertImplementation::kTransformers}};

}  // namespace stepcast::plan
