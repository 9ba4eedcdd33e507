#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/plan/request.h"

namespace stepcast::plan {

// Returns whether the loss is scaled and gradients are checked for overflow (LossScaler). PyTorch's
// GradScaler requires FP32 gradients (torch/amp/grad_scaler.py, _unscale_grads_).
bool ScalesLoss(const Plan& plan);

// Returns warnings about settings that differ from their defaults but have no effect in the plan.
// For such a setting, Setting::idle returns a reason, or the model's layers run the same kernels as
// with the default. The request must be legal on `devices`; `plan` is the completed request. Builds
// the model's layers once for each layer setting in the request.
std::vector<std::string> IdleSettings(const Request& request, const Plan& plan,
                                      const model::Model& model, std::int64_t devices,
                                      const ModelBlocks& blocks);

}  // namespace stepcast::plan
