#include "src/plan/deepspeed.h"

namespace stepcast::plan {

DeepSpeed Complete(const DeepSpeedRequest& request) {
  DeepSpeed result;
  for (const auto& setting : kDeepSpeedSizes) {
    if (request.*setting.given) result.*setting.value = *(request.*setting.given);
  }
  for (const auto& setting : kDeepSpeedSwitches) {
    if (request.*setting.given) result.*setting.value = *(request.*setting.given);
  }
  return result;
}

}  // namespace stepcast::plan
