#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// torch.nn.parallel.DistributedDataParallel.
inline constexpr FrameworkStyle kDdpStyle{.lamb = true,
                                          .loss_scaler = LossScaler::kGradScaler,
                                          .autocast = true,
                                          .compiles_whole_model = true};

const FrameworkPolicy& DdpPolicy();  // ddp.cc

}  // namespace stepcast::plan
