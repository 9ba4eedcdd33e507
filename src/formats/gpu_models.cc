#include "src/formats/gpu_models.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>

#include "fmt/format.h"

namespace stepcast::formats {
namespace {

constexpr Bandwidth GB(std::int64_t n) { return Bandwidth::GigabytesPerSecond(n); }
constexpr Bandwidth kBridgeLink = Bandwidth::BytesPerSecond(14'062'500'000);
constexpr Bandwidth kMi355xLink = Bandwidth::BytesPerSecond(76'800'000'000);

// Links and rates are from vendors' data sheets, halved to one direction (NVLink 4: 18 links, 900
// GB/s both ways). H800: 8 links, 400 GB/s both ways. H100 PCIe and A100 PCIe: a bridge, 600 GB/s.
// RTX A6000, A40 and RTX 3090: a bridge of 4 links, 112.5 GB/s both ways. MI300X: 7 Infinity Fabric
// links of 128 GB/s both ways; MI355X: 153.6. PCI ids are from
// https://pci-ids.ucw.cz, vendors 10de and 1002.
constexpr GpuModel kModels[] = {
    {"v100-sxm2-32gb", 6, GB(25), 3, "0x10de 0x1db5", "Tesla V100-SXM2-32GB"},
    {"a100-sxm-40gb", 12, GB(25), 4, "0x10de 0x20b0", "NVIDIA A100-SXM4-40GB"},
    {"a100-sxm-80gb", 12, GB(25), 4, "0x10de 0x20b2", "NVIDIA A100-SXM4-80GB"},
    {"a100-pcie-80gb", 12, GB(25), 4, "0x10de 0x20b5", "NVIDIA A100 80GB PCIe"},
    {"h100-sxm", 18, GB(25), 5, "0x10de 0x2330", "NVIDIA H100 80GB HBM3"},
    {"h100-pcie", 12, GB(25), 5, "0x10de 0x2331", "NVIDIA H100 PCIe"},
    {"h200", 18, GB(25), 5, "0x10de 0x2335", "NVIDIA H200"},
    {"h800-sxm", 8, GB(25), 5, "0x10de 0x2324", "NVIDIA H800"},
    {"b200", 18, GB(50), 5, "0x10de 0x2901", "NVIDIA B200"},
    {"gb200", 18, GB(50), 5, "0x10de 0x2941", "NVIDIA GB200"},
    {"b300", 18, GB(50), 6, "0x10de 0x3182", "NVIDIA B300 SXM6 AC"},
    {"gb300", 18, GB(50), 6, "0x10de 0x31c2", "NVIDIA GB300"},
    {"l40s", 0, Bandwidth(), 4, "0x10de 0x26b9", "NVIDIA L40S"},
    {"mi300x", 7, GB(64), 5, "0x1002 0x74a1"},
    {"gh200", 18, GB(25), 5, "0x10de 0x2342", "NVIDIA GH200 480GB", "NVIDIA GH200 120GB"},
    {"h20", 18, GB(25), 5, "0x10de 0x2329", "NVIDIA H20"},
    {"a10", 0, Bandwidth(), 4, "0x10de 0x2236", "NVIDIA A10"},
    {"a10g", 0, Bandwidth(), 4, "0x10de 0x2237", "NVIDIA A10G"},
    {"a40", 4, kBridgeLink, 4, "0x10de 0x2235", "NVIDIA A40"},
    {"rtx-a6000", 4, kBridgeLink, 4, "0x10de 0x2230", "NVIDIA RTX A6000"},
    {"rtx-3090", 4, kBridgeLink, 4, "0x10de 0x2204", "NVIDIA GeForce RTX 3090"},
    {"l4", 0, Bandwidth(), 4, "0x10de 0x27b8", "NVIDIA L4"},
    {"l40", 0, Bandwidth(), 4, "0x10de 0x26b5", "NVIDIA L40"},
    {"rtx-4090", 0, Bandwidth(), 4, "0x10de 0x2684", "NVIDIA GeForce RTX 4090"},
    {"rtx-5090", 0, Bandwidth(), 5, "0x10de 0x2b85", "NVIDIA GeForce RTX 5090"},
    {"rtx-pro-6000", 0, Bandwidth(), 5, "0x10de 0x2bb1",
     "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"},
    {"gb10", 0, Bandwidth(), 5, "0x10de 0x2e12", "NVIDIA GB10"},
    {"mi325x", 7, GB(64), 5, "0x1002 0x74a5"},
    {"mi355x", 7, kMi355xLink, 5, "0x1002 0x75a3"},
};

const GpuModel* Find(const auto& matches) {
  const auto* const found = std::find_if(std::begin(kModels), std::end(kModels), matches);
  return found == std::end(kModels) ? nullptr : found;
}

}  // namespace

const GpuModel* FindGpuModel(std::string_view name) {
  return Find([&](const GpuModel& model) { return model.name == name; });
}

const GpuModel* FindGpuModel(std::string_view vendor, std::string_view device) {
  const std::string id = fmt::format("{} {}", vendor, device);
  return Find([&](const GpuModel& model) { return model.pci_id == id; });
}

const GpuModel* FindGpuModelOfCuda(std::string_view name) {
  if (name.empty()) return nullptr;
  return Find([&](const GpuModel& model) {
    return model.cuda_name == name || model.other_cuda_name == name;
  });
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
