#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// DeepSpeed. Layers that ranks divide are the model's own there: Megatron-DeepSpeed's.
inline constexpr FrameworkStyle kDeepSpeedStyle{
    .engine = PipelineEngine::kDeepSpeed,
    .fp32_states =
        "deepspeed keeps FP32 master weights and moments (what bf16_master_weights_and_grads and "
        "bf16_optimizer_states make of them is not modelled)",
    .adamw_8bit = true,
    .flattens = true,
    .host_optimizer = HostOptimizer::kDeepSpeed,
    .gradients = GradientStore::kPartitions,
    .clips_in_fp32 = true,
    .layers = {.torch_linear = true,
               .experts = model::ExpertImplementation::kTransformers,
               .shared_out_experts = model::ExpertImplementation::kDeepSpeed},
    .divided_layers = Framework::kMegatron};

const FrameworkPolicy& DeepSpeedPolicy();  // deepspeed.cc

}  // namespace stepcast::plan
