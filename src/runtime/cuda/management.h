#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/device_health.h"

// NVML, the driver's management library, about a GPU (CUDA's number). The library comes with the
// driver and is looked for when one of these is called.
namespace stepcast::runtime::cuda {

// Driver version, power limit, highest clocks; what it does not tell is left out.
std::vector<std::pair<std::string, std::string>> DescribeManagement(int ordinal);

// Nothing where it does not tell all of it.
std::optional<DeviceHealth> ReadHealth(int ordinal);

}  // namespace stepcast::runtime::cuda
