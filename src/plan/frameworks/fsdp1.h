#pragma once

#include "src/plan/framework_traits.h"

namespace stepcast::plan {

// torch.distributed.fsdp.FullyShardedDataParallel, which left its prototype in PyTorch 1.12. Layers
// that ranks divide are the model's own there: Hetu-Galvatron's.
inline constexpr FrameworkTraits kFsdp1Traits{
    .name = "fsdp1",
    .first_stage = 2,
    .last_stage = 3,
    .stages = "shards parameters, which is stage 3, or stage 2 without resharding",
    .other_stage = "zero_stage: 3 or 2, or framework: reference or ddp",
    .first_torch = {1, 12},
    .of_pytorch = true,
    .fsdp = true,
    .tensor_parallel = true,
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .flattens = true,
    .loss_scaler = LossScaler::kGradScaler,
    .gradients = GradientStore::kUnitsAsWritten,
    .clipping = ClippingKernels::kFsdp1,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

}  // namespace stepcast::plan
