#include "src/formats/gpu_models.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>

namespace stepcast::formats {
namespace {

constexpr Bandwidth GB(std::int64_t n) { return Bandwidth::GigabytesPerSecond(n); }

// Links and rates: vendors' data sheets, halved to one direction (NVLink 4: 18 links, 900 GB/s both
// ways). H800: 400 GB/s both ways, 8 links. H100 PCIe and A100 PCIe: what a bridge carries, 600
// GB/s. MI300X: 7 Infinity Fabric links of 128 GB/s both ways.
constexpr GpuModel kModels[] = {
    {"v100-sxm2-32gb", 6, GB(25), 3}, {"a100-sxm-40gb", 12, GB(25), 4},
    {"a100-sxm-80gb", 12, GB(25), 4}, {"a100-pcie-80gb", 12, GB(25), 4},
    {"h100-sxm", 18, GB(25), 5},      {"h100-pcie", 12, GB(25), 5},
    {"h200", 18, GB(25), 5},          {"h800-sxm", 8, GB(25), 5},
    {"b200", 18, GB(50), 5},          {"gb200", 18, GB(50), 5},
    {"b300", 18, GB(50), 6},          {"gb300", 18, GB(50), 6},
    {"l40s", 0, Bandwidth(), 4},      {"mi300x", 7, GB(64), 5},
};

// https://pci-ids.ucw.cz, vendors 10de and 1002.
struct PciId {
  std::string_view vendor;
  std::string_view device;
  std::string_view name;
};
constexpr PciId kPciIds[] = {
    {"0x10de", "0x1db5", "v100-sxm2-32gb"}, {"0x10de", "0x20b0", "a100-sxm-40gb"},
    {"0x10de", "0x20b2", "a100-sxm-80gb"},  {"0x10de", "0x20b5", "a100-pcie-80gb"},
    {"0x10de", "0x2330", "h100-sxm"},       {"0x10de", "0x2331", "h100-pcie"},
    {"0x10de", "0x2335", "h200"},           {"0x10de", "0x2324", "h800-sxm"},
    {"0x10de", "0x2901", "b200"},           {"0x10de", "0x2941", "gb200"},
    {"0x10de", "0x3182", "b300"},           {"0x10de", "0x31c2", "gb300"},
    {"0x10de", "0x26b9", "l40s"},           {"0x1002", "0x74a1", "mi300x"},
};

// What cudaGetDeviceProperties calls them; as nvidia-smi prints them, too.
struct CudaName {
  std::string_view cuda;
  std::string_view name;
};
constexpr CudaName kCudaNames[] = {
    {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
    {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
    {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
    {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
    {"NVIDIA H100 80GB HBM3", "h100-sxm"},
    {"NVIDIA H100 PCIe", "h100-pcie"},
    {"NVIDIA H200", "h200"},
    {"NVIDIA H800", "h800-sxm"},
    {"NVIDIA B200", "b200"},
    {"NVIDIA GB200", "gb200"},
    {"NVIDIA B300 SXM6 AC", "b300"},
    {"NVIDIA GB300", "gb300"},
    {"NVIDIA L40S", "l40s"},
};

}  // namespace

const GpuModel* FindGpuModel(std::string_view name) {
  for (const GpuModel& model : kModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device) {
  for (const PciId& id : kPciIds) {
    if (id.vendor == vendor && id.device == device) return FindGpuModel(id.name);
  }
  return nullptr;
}

const GpuModel* FindGpuModelOfCuda(std::string_view name) {
  for (const CudaName& known : kCudaNames) {
    if (known.cuda == name) return FindGpuModel(known.name);
  }
  return nullptr;
}

std::optional<Bandwidth> NvLinkBandwidth(int compute_capability) {
  constexpr int kPascal = 60;
  constexpr int kVolta = 70;
  constexpr int kConsumerAmpere = 86;  // GA102's narrower links: 14.0625 GB/s
  constexpr int kBlackwell = 100;
  if (compute_capability < kPascal) return std::nullopt;
  if (compute_capability < kVolta) return GB(20);
  if (compute_capability == kConsumerAmpere) return Bandwidth::BytesPerSecond(14'062'500'000);
  if (compute_capability < kBlackwell) return GB(25);
  return GB(50);
}

Bandwidth PcieBandwidth(double gigatransfers, int lanes) {
  constexpr double kBytesPerTransfer = 1e9 / 8;
  return Bandwidth::BytesPerSecond(std::llround(gigatransfers * kBytesPerTransfer * lanes));
}

double GigatransfersOf(int pcie_generation) {
  constexpr double kRates[] = {2.5, 5, 8, 16, 32, 64};
  const int last = static_cast<int>(std::size(kRates));
  const int at = pcie_generation < 1 ? 1 : pcie_generation > last ? last : pcie_generation;
  return kRates[at - 1];
}

}  // namespace stepcast::formats
