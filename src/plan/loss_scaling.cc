#include "src/plan/loss_scaling.h"

#include "src/base/data_type.h"
#include "src/plan/framework_style.h"

namespace stepcast::plan {

bool ScalesLoss(const Plan& plan) {
  const Training& training = plan.training;
  if (training.precision != DataType::kFp16) return false;
  switch (StyleOf(plan.data_parallel.framework).loss_scaler) {
    case LossScaler::kMegatron:
      return true;
    case LossScaler::kGradScaler:
      return training.parameter_dtype == DataType::kFp32 && training.optimizer != Optimizer::kLamb;
    case LossScaler::kNone:
      return false;
  }
  return false;
}

}  // namespace stepcast::plan
