#pragma once

#include "src/plan/framework_traits.h"
#include "src/plan/frameworks/megatron.h"

namespace stepcast::plan {

// DeepSpeed. Layers that ranks divide are the model's own there: Megatron-DeepSpeed's.
inline constexpr FrameworkTraits kDeepSpeedTraits{
    .name = "deepspeed",
    .first_stage = 0,
    .last_stage = 3,
    .pipelines = true,
    .tensor_parallel = true,
    .engine = PipelineEngine::kDeepSpeed,
    .fused_update = true,
    .fp32_states =
        "deepspeed keeps FP32 master weights and moments (what bf16_master_weights_and_grads and "
        "bf16_optimizer_states make of them is not modelled)",
    .adamw_8bit = true,
    .flattens = true,
    .host_optimizer = HostOptimizer::kDeepSpeed,
    .gradients = GradientStore::kPartitions,
    .clips_in_fp32 = true,
    .layers = {.torch_linear = true, .experts = model::ExpertImplementation::kTransformers},
    .divided_layers = &kMegatronTraits};

}  // namespace stepcast::plan
