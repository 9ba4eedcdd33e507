#pragma once

#include <optional>
#include <string_view>

#include "src/base/rates.h"

// The properties of known GPU types, for input formats without these properties.
namespace stepcast::formats {

struct GpuModel {
  std::string_view name;  // GPU type in topologies/gpus/<name>.yaml
  int nvlinks = 0;        // number of NVLinks of the GPU
  Bandwidth nvlink;       // raw bandwidth of one NVLink, one direction
  int pcie_generation = 4;
  std::string_view pci_id;  // vendor and device: "0x10de 0x2330"
  // Names from cudaGetDeviceProperties, which nvidia-smi prints too. Empty: unknown.
  std::string_view cuda_name{}, other_cuda_name{};
};

// Returns the GPU type with this name, or null if the name is unknown.
const GpuModel* FindGpuModel(std::string_view name);

// Returns the GPU type with these PCI vendor and device ids, as Linux prints them ("0x10de",
// "0x2330"), or null.
const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device);

// Returns the GPU type with this CUDA device name, such as "NVIDIA H100 80GB HBM3", or null.
const GpuModel* FindGpuModelOfCuda(std::string_view name);

// Returns the raw bandwidth of one NVLink in one direction, for a GPU of this compute capability
// (80, 90, ...). None if the bandwidth is unknown.
std::optional<Bandwidth> NvLinkBandwidth(int compute_capability);

// Returns the raw bandwidth, in one direction, of a PCIe connection with `lanes` lanes.
// `gigatransfers` is 2.5, 5, 8, 16, 32 or 64 GT/s per lane. A transfer is one bit, so 32 GT/s are 4
// GB/s per lane.
Bandwidth PcieBandwidth(double gigatransfers, int lanes);
double GigatransfersOf(int pcie_generation);  // for example, 8 for generation 3

}  // namespace stepcast::formats
