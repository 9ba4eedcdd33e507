#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// Largest number of channels of any kind in a communicator.
inline constexpr int kMostChannels = 64;

// A channel's path through a node (NVIDIA/nccl, src/include/graph.h).
//  ring            card -> GPU a -> b -> .. -> x -> card; without network back to a
//  tree            a chain a -> b -> .. -> x; card and both children at a
//  balanced tree   the same; the parent and one child at a, the other child at b
//  split tree      the same; the parent at a, both children at b
//  NVLS            a head GPU with its card; the rest follows through NVSwitch
//  CollNet direct  a head GPU with its card, all others next to it
enum class Pattern : std::uint8_t {
  kBalancedTree,
  kSplitTree,
  kTree,
  kRing,
  kNvls,
  kCollNetDirect
};

struct ChannelPath {
  std::vector<int> gpus;  // GPUs of the node, in order; for NVLS only the head
  int nic_in = -1;        // the card that a ring enters by, or that trees and heads use
  int nic_out = -1;

  friend bool operator==(const ChannelPath&, const ChannelPath&) = default;
};

// The search's result. Bandwidths are per search channel.
struct Graph {
  Pattern pattern = Pattern::kRing;
  int channels = 0;
  double bw_intra = 0;                     // GB/s inside the node
  double bw_inter = 0;                     // GB/s through the cards
  PathType type_intra = PathType::kLocal;  // the farthest kind of path used
  PathType type_inter = PathType::kPix;
  int cross_nic = 0;               // 2: a ring may leave by a different card than it entered
  bool same_channels = true;       // all channels visit the GPUs in the same order
  bool found = true;               // no: one channel in GPU order replaces a missing result
  double latency_inter = 0;        // us, of the cards
  std::vector<ChannelPath> paths;  // [channel]; empty for a graph given only as numbers
};

// The graphs that the algorithms use; all nodes of a communicator have the same.
struct Graphs {
  Graph ring;
  Graph tree;  // also for PAT
  Graph collnet_chain;
  Graph collnet_direct;
  Graph nvls;  // also for NVLSTree

  const Graph& Of(Algorithm algorithm) const;
};

// The graphs for `nodes` such machines. Rings and trees get the same number of channels. CollNet is
// searched only if requested.
Graphs FindGraphs(const Node& node, int nodes, Version version, bool collnet = false);

// Compute channels: the most that a collective can occupy at once, each a thread block on its own
// multiprocessor (NVIDIA/nccl, src/graph/connect.cc, src/transport/nvls.cc).

// Limits set by the user or the framework: NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS, or minCTAs
// and maxCTAs of a communicator's configuration; for a split communicator, the parent's channels.
struct ChannelBounds {
  int at_least = 1;
  int at_most = kMostChannels;
  std::optional<int> parent = std::nullopt;
};

// For rings and trees: twice the search channels, and again twice that on Hopper and later with
// several nodes, fewer than 16 channels, and rings faster than 45 GB/s.
int ComputeChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                    const ChannelBounds& bounds = {});

// For NVLS: 16; on Blackwell 24 in one node, 32 across several. 0 without an NVLS graph.
int NvlsChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                 const ChannelBounds& bounds = {});

}  // namespace stepcast::nccl
