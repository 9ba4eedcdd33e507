#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stepcast::runtime::cuda {

// What NVML, the driver's management library, tells about a GPU (CUDA's number): driver version,
// power limit, highest clocks. The library comes with the driver and is looked for when this is
// called; what it does not tell is left out.
std::vector<std::pair<std::string, std::string>> DescribeManagement(int ordinal);

}  // namespace stepcast::runtime::cuda
