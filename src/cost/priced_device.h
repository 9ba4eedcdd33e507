#pragma once

#include <memory>
#include <optional>

#include "src/base/version.h"
#include "src/cost/kernel_memo.h"
#include "src/cost/kernel_price.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// A GPU with a profile, under a limit of power: what prices of kernels depend on beside the
// kernel.
struct PricedDevice {
  static bool IsTextbook(const scenario::Scenario& scenario) {
    return plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  }

  PricedDevice(const scenario::Scenario& scenario, double limit)
      : limit_watts(limit),
        calibration(scenario.calibration),
        gpu(scenario.gpu),
        torch(scenario.plan.software.torch),
        textbook(IsTextbook(scenario)) {}

  bool IsOf(const scenario::Scenario& scenario, double limit) const {
    return limit_watts == limit && calibration == scenario.calibration &&
           textbook == IsTextbook(scenario) && gpu == scenario.gpu &&
           torch == scenario.plan.software.torch;
  }

  // Of kernels on this device. Requires a GPU.
  KernelSetting SettingOf(const calibration::KernelCosts& costs) const {
    return {.gpu = *gpu,
            .costs = costs,
            .torch = torch,
            .limit_watts = limit_watts,
            .start_latency = !textbook};
  }

  const double limit_watts;  // of products and attention; 0: any
  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const Version torch;
  const bool textbook;
  KernelMemo kernels;
};

}  // namespace stepcast::cost
