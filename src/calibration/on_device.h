#pragma once

#include <array>
#include <vector>

#include "src/base/rates.h"
#include "src/calibration/calibration.h"
#include "src/calibration/plausible.h"

namespace stepcast::calibration {

// What a data sheet says of the device that a profile is used for.
struct DeviceSheet {
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount> peak;  // by DataType; zero: none
  bool separate = true;                       // a host launches its kernels (not host-cpu)
};

// Figures that this device cannot have, though another may:
//  * kernels that move 256 MiB or more (no cache holds so much) faster than the memory does;
//  * attention faster than the peak of its data type;
//  * launches, or the shortest kernel, in no time at all, where a host launches.
// Products are compared with the peak by cost::Price (cost.faster-than-device).
std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet);

}  // namespace stepcast::calibration
