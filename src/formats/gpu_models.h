#pragma once

#include <optional>
#include <string_view>

#include "src/base/rates.h"

// Properties of GPU types that are known by name, for input formats that leave them out.
namespace stepcast::formats {

struct GpuModel {
  std::string_view name;  // topologies/gpus/<name>.yaml
  int nvlinks = 0;        // that leave the GPU; 0: none
  Bandwidth nvlink;       // of one, one direction, raw
  int pcie_generation = 4;
};

// Null for an unknown name.
const GpuModel* FindGpuModel(std::string_view name);

// By the PCI vendor and device ids ("0x10de", "0x2330") as Linux gives them. Null if unknown.
const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device);

// By the device name of CUDA, such as "NVIDIA H100 80GB HBM3". Null if unknown.
const GpuModel* FindGpuModelOfCuda(std::string_view name);

// Raw bandwidth of one NVLink in one direction, for a GPU of this compute capability (80, 90, ...).
std::optional<Bandwidth> NvLinkBandwidth(int compute_capability);

// Raw bandwidth in one direction of a PCIe connection with `lanes` lanes of 2.5, 5, 8, 16, 32 or 64
// GT/s. A transfer is a bit: 32 GT/s are 4 GB/s a lane.
Bandwidth PcieBandwidth(double gigatransfers, int lanes);
double GigatransfersOf(int pcie_generation);  // 3: 8

}  // namespace stepcast::formats
