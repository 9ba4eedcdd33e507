#pragma once

#include <memory>
#include <optional>

#include "src/base/version.h"
#include "src/cost/kernel_memo.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

// A GPU with a profile: what prices of kernels depend on beside the kernel.
struct PricedDevice {
  static bool IsTextbook(const scenario::Scenario& scenario) {
    return plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
  }

  explicit PricedDevice(const scenario::Scenario& scenario)
      : calibration(scenario.calibration),
        gpu(scenario.gpu),
        torch(scenario.plan.software.torch),
        textbook(IsTextbook(scenario)) {}

  bool IsOf(const scenario::Scenario& scenario) const {
    return calibration == scenario.calibration && textbook == IsTextbook(scenario) &&
           gpu == scenario.gpu && torch == scenario.plan.software.torch;
  }

  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const Version torch;
  const bool textbook;
  KernelMemo kernels;
};

}  // namespace stepcast::cost
