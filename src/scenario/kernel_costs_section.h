#pragma once

#include <vector>

#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {

// What a device's kernels cost, by the releases of their libraries.
struct KernelCostsSection {
  calibration::KernelCosts costs;
  std::vector<calibration::KernelRelease> releases{};  // ascending
};

// The section `kernels` of a calibration profile (calibration_file.h, which lists what is reported;
// docs/formats.md).
KernelCostsSection ReadKernelCosts(MappingReader& section, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
