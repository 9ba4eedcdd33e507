#pragma once

#include "src/nccl/bandwidth.h"
#include "src/nccl/node.h"

// Machines for the tests of this package.
namespace stepcast::nccl {

// The first `gpus` of eight Hopper or Blackwell GPUs on NVSwitch. Each GPU shares a PCIe switch
// with its own network card (NVIDIA DGX H100 and B200 user guides, system topology).
inline Node RailNode(int gpus, int compute_capability, double port) {
  Node node;
  node.cpu = Cpu::kIntelSapphireRapids;
  for (int i = 0; i < gpus; ++i) {
    const double pcie = PcieBandwidth(16, 32);
    node.switches.push_back({.socket = i / 4, .bandwidth = pcie});
    const PcieSlot slot{.pcie_switch = i, .bandwidth = pcie};
    node.gpus.push_back(
        {.compute_capability = compute_capability, .nvswitch_links = 18, .slot = slot});
    node.nics.push_back({.bandwidth = port, .slot = slot});
  }
  return node;
}

inline Node DgxH100(int gpus = 8) { return RailNode(gpus, 90, PortBandwidth(400'000)); }
inline Node DgxB200(int gpus = 8) { return RailNode(gpus, 100, PortBandwidth(400'000)); }

// Eight A100 on NVSwitch, with two GPUs and two 200 Gbit/s network cards behind each PCIe switch
// (NVIDIA DGX A100 user guide, system topology).
inline Node DgxA100(int gpus = 8) {
  Node node;
  node.cpu = Cpu::kAmd;
  for (int i = 0; i < gpus; ++i) {
    const double pcie = PcieBandwidth(16, 16);
    if (i % 2 == 0) node.switches.push_back({.socket = i / 4, .bandwidth = pcie});
    const PcieSlot slot{.pcie_switch = i / 2, .bandwidth = pcie};
    node.gpus.push_back({.compute_capability = 80, .nvswitch_links = 12, .slot = slot});
    node.nics.push_back({.bandwidth = PortBandwidth(200'000), .slot = slot});
  }
  return node;
}

// GPUs and one network card at a processor's PCIe root, without NVLink.
inline Node PcieNode(int gpus, Cpu cpu) {
  Node node;
  node.cpu = cpu;
  const PcieSlot slot{.socket = 0, .bandwidth = PcieBandwidth(16, 16)};
  for (int i = 0; i < gpus; ++i) node.gpus.push_back({.compute_capability = 89, .slot = slot});
  node.nics.push_back({.bandwidth = PortBandwidth(100'000), .slot = slot});
  return node;
}

}  // namespace stepcast::nccl
