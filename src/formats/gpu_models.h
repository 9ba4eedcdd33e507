#pragma once

#include <optional>
#include <string_view>

#include "src/base/rates.h"

// The properties of GPU types that are known by name. Used for input formats that omit them.
namespace stepcast::formats {

struct GpuModel {
  std::string_view name;  // topologies/gpus/<name>.yaml
  int nvlinks = 0;        // that leave the GPU; 0: none
  Bandwidth nvlink;       // raw bandwidth of one NVLink, one direction
  int pcie_generation = 4;
};

// Returns the GPU type with this name, or null if the name is unknown.
const GpuModel* FindGpuModel(std::string_view name);

// Returns the GPU type with these PCI vendor and device ids, as Linux prints them ("0x10de",
// "0x2330"). Null if they are unknown.
const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device);

// Returns the GPU type with this CUDA device name, such as "NVIDIA H100 80GB HBM3". Null if the
// name is unknown.
const GpuModel* FindGpuModelOfCuda(std::string_view name);

// Returns the raw bandwidth of one NVLink in one direction, for a GPU of this compute capability
// (80, 90, ...). None if it is unknown.
std::optional<Bandwidth> NvLinkBandwidth(int compute_capability);

// Returns the raw bandwidth, in one direction, of a PCIe connection with `lanes` lanes of 2.5, 5,
// 8, 16, 32 or 64 GT/s. A transfer is one bit, so 32 GT/s are 4 GB/s per lane.
Bandwidth PcieBandwidth(double gigatransfers, int lanes);
double GigatransfersOf(int pcie_generation);  // 3: 8

}  // namespace stepcast::formats
