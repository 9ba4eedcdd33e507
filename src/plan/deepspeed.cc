#include "src/plan/deepspeed.h"

namespace stepcast::plan {

const char* Name(OffloadDevice device) {
  switch (device) {
    case OffloadDevice::kNone:
      return "none";
    case OffloadDevice::kCpu:
      return "cpu";
    case OffloadDevice::kNvme:
      return "nvme";
  }
  return "";
}

DeepSpeed Complete(const DeepSpeedRequest& request) {
  DeepSpeed result;
  for (const auto& setting : kDeepSpeedSizes) {
    if (request.*setting.given) result.*setting.value = *(request.*setting.given);
  }
  for (const auto& setting : kDeepSpeedSwitches) {
    if (request.*setting.given) result.*setting.value = *(request.*setting.given);
  }
  for (const auto& setting : kDeepSpeedOffload) {
    if (request.*setting.given) result.*setting.value = *(request.*setting.given);
  }
  return result;
}

}  // namespace stepcast::plan
