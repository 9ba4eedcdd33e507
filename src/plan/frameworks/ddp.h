#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// torch.nn.parallel.DistributedDataParallel.
inline constexpr FrameworkStyle kDdpStyle{
    .lamb = true,
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .muon = MuonKernels::kTorch,
    .loss_scaler = LossScaler::kGradScaler,
    .autocast = true,
    .compiles_whole_model = true,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

const FrameworkPolicy& DdpPolicy();  // ddp.cc

}  // namespace stepcast::plan
