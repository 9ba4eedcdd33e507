#pragma once

#include "src/nccl/communicator.h"

// Communicators with graphs given as numbers, for tests of the tuner: `nodes` machines of eight
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

// H100: one node 12 rings of 30 and 8 NVLS heads of 40, 60 between; several nodes with eight cards
// of 400 Gbit/s 8 rings of 48 and heads of 40, 48 between.
inline Communicator H100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 30 : 48;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 90, Cpu::kIntelSapphireRapids,
                       NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 8, 40, nodes == 1 ? 60 : 48), version);
}

// A100 with AMD processors: one node 12 rings of 20; several with eight cards of 200 Gbit/s 8
// of 24.
inline Communicator A100(int nodes, Version version = Version::kV230) {
  const double speed = nodes == 1 ? 20 : 24;
  const int channels = nodes == 1 ? 12 : 8;
  return EightGpuNodes(nodes, 80, Cpu::kAmd, NumbersOnly(Pattern::kRing, channels, speed, speed),
                       NumbersOnly(Pattern::kBalancedTree, channels, speed, speed),
                       NumbersOnly(Pattern::kNvls, 0, 0, 0), version);
}

}  // namespace stepcast::nccl
