#pragma once

#include <optional>
#include <string_view>

#include "src/base/rates.h"

// Figures that the names of GPU types imply, for formats that describe a machine and leave this
// out.
namespace stepcast::formats {

struct GpuModel {
  std::string_view name;  // topologies/gpus/<name>.yaml
  int nvlinks = 0;        // that leave the GPU; 0: none
  Bandwidth nvlink;       // of one, one direction, raw
  int pcie_generation = 4;
};

// Null for a name that is not known here.
const GpuModel* FindGpuModel(std::string_view name);

// By the PCI vendor and device id ("0x10de", "0x2330") as Linux gives them. Null when unknown.
const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device);

// Finds a GPU's model by the name that CUDA gives the device, such as "NVIDIA H100 80GB HBM3". The
// result is null where no model has this name.
const GpuModel* FindGpuModelOfCuda(std::string_view name);

// One NVLink of a GPU of this compute capability (80, 90, ...), one direction, raw.
std::optional<Bandwidth> NvLinkBandwidth(int compute_capability);

// A PCIe connection with `lanes` lanes of 2.5, 5, 8, 16, 32 or 64 GT/s, one direction, raw: a
// transfer is a bit, so 32 GT/s are 4 GB/s a lane.
Bandwidth PcieBandwidth(double gigatransfers, int lanes);
double GigatransfersOf(int pcie_generation);  // 3: 8

}  // namespace stepcast::formats
