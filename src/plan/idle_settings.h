#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/plan/request.h"

namespace stepcast::plan {

// Whether the loss is scaled and gradients are searched for overflows (LossScaler). PyTorch's
// GradScaler takes FP32 gradients alone (torch/amp/grad_scaler.py, _unscale_grads_).
bool ScalesLoss(const Plan& plan);

// Sentences about settings that the request gives other values than their defaults, and that do
// nothing in the complete plan: their rows say why (Setting::idle), or the model's layers run the
// same kernels as by default. The request must be legal on `devices`, and `plan` what Complete
// makes of it. It builds the model's layers once for each setting of layers that the request has.
std::vector<std::string> IdleSettings(const Request& request, const Plan& plan,
                                      const model::Model& model, std::int64_t devices,
                                      const ModelBlocks& blocks);

}  // namespace stepcast::plan
