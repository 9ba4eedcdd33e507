#pragma once

#include "src/plan/plan.h"

namespace stepcast::plan {

// Whether the loss is scaled and gradients are searched for overflows (LossScaler). PyTorch's
// GradScaler takes FP32 gradients alone (torch/amp/grad_scaler.py, _unscale_grads_).
bool ScalesLoss(const Plan& plan);

}  // namespace stepcast::plan
