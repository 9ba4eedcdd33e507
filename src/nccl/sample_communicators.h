#pragma once

#include "src/nccl/communicator.h"

// Communicators for tests of the tuner, with graphs given by numbers: `nodes` machines of eight
// GPUs on NVSwitch.
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

// H100. One node: 12 rings of 30 GB/s and 8 NVLS heads of 40 GB/s (60 GB/s through the cards).
// Several nodes with eight 400 Gbit/s network cards: 8 rings of 48 GB/s; NVLS heads of 40 GB/s
// inside nodes and 48 GB/s between nodes.
inline Communicator H100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 30 : 48;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 90, Cpu::kIntelSapphireRapids,
                       NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 8, 40, nodes == 1 ? 60 : 48), version);
}

// A100 with AMD processors. One node: 12 rings of 20 GB/s. Several nodes with eight 200 Gbit/s
// network cards: 8 rings of 24 GB/s.
inline Communicator A100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 20 : 24;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 80, Cpu::kAmd, NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 0, 0, 0), version);
}

}  // namespace stepcast::nccl
