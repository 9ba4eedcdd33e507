#pragma once

#include <span>

#include "src/nccl/graphs.h"
#include "src/nccl/node.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The graph to search for.
struct SearchRequest {
  Pattern pattern = Pattern::kRing;
  bool in_network = false;  // whether network cards reduce in the network (CollNet)
  int min_channels = 1;
  int max_channels = 32;
};

// NCCL's search for the channels of a node (NVIDIA/nccl, src/graph/search.cc): depth first, with a
// limited number of steps. Channels are added one after another, and reduce the available bandwidth
// of their links. The result is equal to NCCL's, even if a better result exists.
//
//   1. Start at the fastest speed that a path allows and that fits the GPU's total bandwidth. The
//      best result has the largest channels x speed, then the fewest hops; for NVLS, also the most
//      channels.
//   2. Until the GPU's total bandwidth is used: let channels differ, use the simpler tree (Hopper
//      and later), use farther paths, let rings change network cards, and then try the next slower
//      speed while it exceeds 0.49 of the speed found.
//   3. Except for NVLS, double the channels and halve their speed. Skip this step if the speed is
//      below 25 GB/s, or below 50 GB/s with more than four channels on GPUs after Ampere.
//   4. Raise speeds as far as the links allow: for rings inside and between nodes, for trees inside
//      the node, for NVLS between nodes.
//
// Searches across nodes if the fabric has network cards, otherwise inside one node. Returns no
// channels if the graph cannot exist (NVLS without NVSwitch or before Hopper). For other patterns,
// returns at least one channel. Takes milliseconds.
Graph SearchGraph(const Node& node, const Fabric& fabric, Version version,
                  const SearchRequest& request);

// Returns the bandwidths per channel that the search tries, in GB/s, highest first (NVIDIA/nccl,
// src/graph/search.cc). `across_nodes` selects graphs across nodes instead of graphs in one node.
std::span<const double> SearchSpeeds(Version version, Generation generation, bool across_nodes);

}  // namespace stepcast::nccl
