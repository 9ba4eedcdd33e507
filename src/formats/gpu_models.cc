#include "src/formats/gpu_models.h"

#include <cmath>
#include <cstdint>
#include <iterator>

namespace stepcast::formats {
namespace {

constexpr Bandwidth GB(std::int64_t n) { return Bandwidth::GigabytesPerSecond(n); }
constexpr Bandwidth kBridgeLink = Bandwidth::BytesPerSecond(14'062'500'000);
constexpr Bandwidth kMi355xLink = Bandwidth::BytesPerSecond(76'800'000'000);

// Links and rates are from vendors' data sheets, halved to one direction (NVLink 4: 18 links, 900
// GB/s both ways). H800: 8 links, 400 GB/s both ways. H100 PCIe and A100 PCIe: a bridge, 600 GB/s.
// RTX A6000, A40 and RTX 3090: a bridge of 4 links, 112.5 GB/s both ways. MI300X: 7 Infinity Fabric
// links of 128 GB/s both ways; MI355X: 153.6.
constexpr GpuModel kModels[] = {
    {"v100-sxm2-32gb", 6, GB(25), 3}, {"a100-sxm-40gb", 12, GB(25), 4},
    {"a100-sxm-80gb", 12, GB(25), 4}, {"a100-pcie-80gb", 12, GB(25), 4},
    {"h100-sxm", 18, GB(25), 5},      {"h100-pcie", 12, GB(25), 5},
    {"h200", 18, GB(25), 5},          {"h800-sxm", 8, GB(25), 5},
    {"b200", 18, GB(50), 5},          {"gb200", 18, GB(50), 5},
    {"b300", 18, GB(50), 6},          {"gb300", 18, GB(50), 6},
    {"l40s", 0, Bandwidth(), 4},      {"mi300x", 7, GB(64), 5},
    {"gh200", 18, GB(25), 5},         {"h20", 18, GB(25), 5},
    {"a10", 0, Bandwidth(), 4},       {"a10g", 0, Bandwidth(), 4},
    {"a40", 4, kBridgeLink, 4},       {"rtx-a6000", 4, kBridgeLink, 4},
    {"rtx-3090", 4, kBridgeLink, 4},  {"l4", 0, Bandwidth(), 4},
    {"l40", 0, Bandwidth(), 4},       {"rtx-4090", 0, Bandwidth(), 4},
    {"rtx-5090", 0, Bandwidth(), 5},  {"rtx-pro-6000", 0, Bandwidth(), 5},
    {"gb10", 0, Bandwidth(), 5},      {"mi325x", 7, GB(64), 5},
    {"mi355x", 7, kMi355xLink, 5},
};

// https://pci-ids.ucw.cz, vendors 10de and 1002.
struct PciId {
  std::string_view vendor;
  std::string_view device;
  std::string_view name;
};
constexpr PciId kPciIds[] = {
    {"0x10de", "0x1db5", "v100-sxm2-32gb"},
    {"0x10de", "0x20b0", "a100-sxm-40gb"},
    {"0x10de", "0x20b2", "a100-sxm-80gb"},
    {"0x10de", "0x20b5", "a100-pcie-80gb"},
    {"0x10de", "0x2330", "h100-sxm"},
    {"0x10de", "0x2331", "h100-pcie"},
    {"0x10de", "0x2335", "h200"},
    {"0x10de", "0x2324", "h800-sxm"},
    {"0x10de", "0x2901", "b200"},
    {"0x10de", "0x2941", "gb200"},
    {"0x10de", "0x3182", "b300"},
    {"0x10de", "0x31c2", "gb300"},
    {"0x10de", "0x26b9", "l40s"},
    {"0x1002", "0x74a1", "mi300x"},
    {"0x10de", "0x2342", "gh200"},
    {"0x10de", "0x2329", "h20"},
    {"0x10de", "0x2236", "a10"},
    {"0x10de", "0x2237", "a10g"},
    {"0x10de", "0x2235", "a40"},
    {"0x10de", "0x2230", "rtx-a6000"},
    {"0x10de", "0x2204", "rtx-3090"},
    {"0x10de", "0x27b8", "l4"},
    {"0x10de", "0x26b5", "l40"},
    {"0x10de", "0x2684", "rtx-4090"},
    {"0x10de", "0x2b85", "rtx-5090"},
    {"0x10de", "0x2bb1", "rtx-pro-6000"},
    {"0x10de", "0x2e12", "gb10"},
    {"0x1002", "0x74a5", "mi325x"},
    {"0x1002", "0x75a3", "mi355x"},
};

// Names from cudaGetDeviceProperties, which nvidia-smi prints too.
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
    {"NVIDIA GH200 480GB", "gh200"},
    {"NVIDIA GH200 120GB", "gh200"},
    {"NVIDIA H20", "h20"},
    {"NVIDIA A10", "a10"},
    {"NVIDIA A10G", "a10g"},
    {"NVIDIA A40", "a40"},
    {"NVIDIA RTX A6000", "rtx-a6000"},
    {"NVIDIA GeForce RTX 3090", "rtx-3090"},
    {"NVIDIA L4", "l4"},
    {"NVIDIA L40", "l40"},
    {"NVIDIA GeForce RTX 4090", "rtx-4090"},
    {"NVIDIA GeForce RTX 5090", "rtx-5090"},
    {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"},
    {"NVIDIA GB10", "gb10"},
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
  if (compute_capability == kConsumerAmpere) return kBridgeLink;
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
