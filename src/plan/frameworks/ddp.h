#pragma once

#include "src/plan/framework_traits.h"

namespace stepcast::plan {

// torch.nn.parallel.DistributedDataParallel.
inline constexpr FrameworkTraits kDdpTraits{
    .name = "ddp",
    .first_stage = 0,
    .last_stage = 0,
    .stages = "keeps full copies, which is stage 0",
    .other_stage = "zero_stage: 0, or framework: reference or fsdp2",
    .of_pytorch = true,
    .lamb = true,
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .muon = MuonKernels::kTorch,
    .loss_scaler = LossScaler::kGradScaler,
    .clipping = ClippingKernels::kTorch,
    .autocast = true,
    .compiles_whole_model = true,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

}  // namespace stepcast::plan
