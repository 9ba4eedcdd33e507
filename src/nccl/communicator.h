#pragma once

#include "src/nccl/graphs.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// What the tuner knows of a communicator.
struct Communicator {
  Version version = Version::kV230;
  int ranks = 1;
  int nodes = 1;
  int most_local_ranks = 1;  // of any node
  int min_compute_capability = 90;
  int max_compute_capability = 90;
  Cpu cpu = Cpu::kIntelSapphireRapids;
  Graphs graphs;
  int compute_channels = 1;  // graphs.h
  int nvls_channels = 0;     // 0: no multicast through NVSwitch
  bool nvswitch = false;
  // Reduction in the network: switched on, for all-gather and reduce-scatter too, and how many GPUs
  // of a node have a card of their own.
  bool collnet = false;
  bool collnet_gathers = false;
  int collnet_heads = 0;

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// The communicator of all GPUs of `nodes` such machines. Reduction in the network is on where there
// are several nodes and every card reduces (NCCL_COLLNET_ENABLE=1 and a plug-in for it). NVLS where
// the graph search finds it (NVSwitch, Hopper or later, two GPUs or more).
Communicator MakeCommunicator(const Node& node, int nodes, Version version);

}  // namespace stepcast::nccl
