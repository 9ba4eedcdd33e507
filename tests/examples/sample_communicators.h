#pragma once

#include "src/nccl/bandwidth.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/node.h"

// Returns communicators for tests of the tuner, whose graphs are given by numbers. Each consists of
// `nodes` machines with eight GPUs on NVSwitch.
namespace stepcast::nccl {

inline Graph NumbersOnly(Pattern pattern, int channels, double bw_intra, double bw_inter) {
  Graph graph;
  graph.pattern = pattern;
  graph.channels = channels;
  graph.bw_intra = bw_intra;
  graph.bw_inter = bw_inter;
  graph.type_intra = PathType::kNvlink;
  graph.type_inter = PathType::kPix;
  graph.same_channels = false;
  return graph;
}

inline Communicator EightGpuNodes(int nodes, int compute_capability, Cpu cpu, const Graph& ring,
                                  const Graph& tree, const Graph& nvls, Version version) {
  Communicator result;
  result.version = version;
  result.ranks = 8 * nodes;
  result.nodes = nodes;
  result.most_local_ranks = 8;
  result.min_compute_capability = result.max_compute_capability = compute_capability;
  result.cpu = cpu;
  result.compute_channels = 2 * ring.channels;
  result.nvls_channels = nvls.channels == 0 ? 0 : 16;
  result.nvswitch = true;
  result.graphs.ring = ring;
  result.graphs.tree = tree;
  result.graphs.nvls = nvls;
  return result;
}

// Returns a communicator of H100 GPUs. In one node, it has 12 rings of 30 GB/s, and 8 NVLS heads of
// 40 GB/s (60 GB/s through the cards). Across nodes with eight 400 Gbit/s network cards, it has 8
// rings of 48 GB/s. Its NVLS heads have 40 GB/s inside nodes and 48 GB/s between nodes.
inline Communicator H100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 30 : 48;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 90, Cpu::kIntelSapphireRapids,
                       NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 8, 40, nodes == 1 ? 60 : 48), version);
}

// Returns a communicator of A100 GPUs with AMD processors. In one node, it has 12 rings of 20 GB/s.
// Across nodes with eight 200 Gbit/s network cards, it has 8 rings of 24 GB/s.
inline Communicator A100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 20 : 24;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 80, Cpu::kAmd, NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 0, 0, 0), version);
}

// Sample machines for the tests of this package.

// Returns a node with the first `gpus` of eight Hopper or Blackwell GPUs on NVSwitch. Each GPU
// shares a PCIe switch with its own network card (NVIDIA DGX H100 and B200 user guides, system
// topology).
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

// Returns a node of eight A100 on NVSwitch. Behind each PCIe switch are two GPUs and two 200 Gbit/s
// network cards (NVIDIA DGX A100 user guide, system topology).
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

// Returns a node with GPUs and one network card at a processor's PCIe root, without NVLink.
inline Node PcieNode(int gpus, Cpu cpu) {
  Node node;
  node.cpu = cpu;
  const PcieSlot slot{.socket = 0, .bandwidth = PcieBandwidth(16, 16)};
  for (int i = 0; i < gpus; ++i) node.gpus.push_back({.compute_capability = 89, .slot = slot});
  node.nics.push_back({.bandwidth = PortBandwidth(100'000), .slot = slot});
  return node;
}

}  // namespace stepcast::nccl
