#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The largest number of channels of any kind in a communicator.
inline constexpr int kMostChannels = 64;

// The pattern of a channel's path through a node (NVIDIA/nccl, src/include/graph.h):
//   ring: card -> GPU a -> b -> .. -> x -> card. Without a network, x sends back to a.
//   tree: a chain a -> b -> .. -> x. The card and both children connect to a.
//   balanced tree: as tree, but the parent and one child connect to a, the other child to b.
//   split tree: as tree, but the parent connects to a, and both children connect to b.
//   NVLS: a head GPU with its network card, which reaches the other GPUs through NVSwitch.
//   CollNet direct: a head GPU with its network card, to which all other GPUs connect directly.
enum class Pattern : std::uint8_t {
  kBalancedTree,
  kSplitTree,
  kTree,
  kRing,
  kNvls,
  kCollNetDirect
};

struct ChannelPath {
  std::vector<int> gpus;  // GPUs of the node, in order; for NVLS, only the head GPU
  int nic_in = -1;        // network card at which a ring enters; the card of trees and heads
  int nic_out = -1;

  friend bool operator==(const ChannelPath&, const ChannelPath&) = default;
};

// The result of the graph search. Bandwidths are per channel of the search.
struct Graph {
  Pattern pattern = Pattern::kRing;
  int channels = 0;
  double bw_intra = 0;                     // GB/s inside the node
  double bw_inter = 0;                     // GB/s through the network cards
  PathType type_intra = PathType::kLocal;  // the most distant kind of path inside the node
  PathType type_inter = PathType::kPix;
  int cross_nic = 0;               // 2: rings may enter and leave by different cards
  bool same_channels = true;       // whether all channels visit the GPUs in the same order
  bool found = true;               // false: search failed; one channel in GPU order
  double latency_inter = 0;        // latency of the network cards in us
  std::vector<ChannelPath> paths;  // indexed by channel; empty for a graph that has only numbers
};

// The graphs of the algorithms. All nodes of a communicator have the same graphs.
struct Graphs {
  Graph ring;
  Graph tree;  // also used for PAT
  Graph collnet_chain;
  Graph collnet_direct;
  Graph nvls;  // also used for NVLSTree

  const Graph& Of(Algorithm algorithm) const;
};

// Returns the graphs for `nodes` identical nodes. Rings and trees have the same number of channels.
// CollNet is searched only if `collnet` is true.
Graphs FindGraphs(const Node& node, int nodes, Version version, bool collnet = false);

// Compute channels: the largest number of channels that a collective uses at once. Each channel is
// a thread block on a separate multiprocessor (NVIDIA/nccl, src/graph/connect.cc,
// src/transport/nvls.cc).

// Limits on the number of channels, set by the user or the framework: NCCL_MIN_NCHANNELS and
// NCCL_MAX_NCHANNELS, or minCTAs and maxCTAs of a communicator's configuration. For a split
// communicator, `parent` is the parent's number of channels.
struct ChannelBounds {
  int at_least = 1;
  int at_most = kMostChannels;
  std::optional<int> parent = std::nullopt;
};

// Returns the number of compute channels for rings and trees: twice the channels of the search. On
// Hopper and later, the number is four times the channels of the search if there are several nodes,
// fewer than 16 channels, and rings faster than 45 GB/s.
int ComputeChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                    const ChannelBounds& bounds = {});

// Returns the number of channels for NVLS: 16, on Blackwell 24 in one node and 32 across nodes. 0
// without an NVLS graph.
int NvlsChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                 const ChannelBounds& bounds = {});

}  // namespace stepcast::nccl
