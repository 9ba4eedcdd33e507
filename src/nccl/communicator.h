#pragma once

#include "src/nccl/graphs.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The properties of a communicator that the tuner uses.
struct Communicator {
  Version version = Version::kV230;
  int ranks = 1;
  int nodes = 1;
  int most_local_ranks = 1;  // largest number of ranks in one node
  int min_compute_capability = 90;
  int max_compute_capability = 90;
  Cpu cpu = Cpu::kIntelSapphireRapids;
  Graphs graphs;
  int compute_channels = 1;  // see graphs.h
  int nvls_channels = 0;     // 0: no multicast through NVSwitch
  bool nvswitch = false;
  // Reduction in the network: whether it is enabled, whether it also serves all-gather and
  // reduce-scatter, and how many GPUs of a node have their own network card.
  bool collnet = false;
  bool collnet_gathers = false;
  int collnet_heads = 0;

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

// The communicator of all GPUs of `nodes` identical nodes. Reduction in the network is enabled if
// there are several nodes and all network cards can reduce (NCCL_COLLNET_ENABLE=1 and a plug-in for
// it). NVLS is enabled if the graph search finds it (NVSwitch, Hopper or later, at least two GPUs).
Communicator MakeCommunicator(const Node& node, int nodes, Version version);

}  // namespace stepcast::nccl
