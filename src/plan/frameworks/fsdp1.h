#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// torch.distributed.fsdp.FullyShardedDataParallel, which left its prototype in PyTorch 1.12. Layers
// that ranks divide are the model's own there: Hetu-Galvatron's.
inline constexpr FrameworkStyle kFsdp1Style{
    .first_torch = {1, 12},
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .flattens = true,
    .loss_scaler = LossScaler::kGradScaler,
    .gradients = GradientStore::kUnitsAsWritten,
    .shards_frozen = true,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

const FrameworkPolicy& Fsdp1Policy();  // fsdp1.cc

}  // namespace stepcast::plan
