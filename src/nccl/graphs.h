#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/nccl/node.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// Of any kind in a communicator.
inline constexpr int kMostChannels = 64;

// How a channel runs through a node (NVIDIA/nccl, src/include/graph.h).
//   ring            card -> GPU a -> b -> .. -> x -> card; without network back to a
//   tree            a chain a -> b -> .. -> x; card and both children at a
//   balanced tree   the same; the parent and one child at a, the other child at b
//   split tree      the same; the parent at a, both children at b
//   NVLS            a head GPU with its card; the rest follows through NVSwitch
//   CollNet direct  a head GPU with its card, all others next to it
enum class Pattern : std::uint8_t {
  kBalancedTree,
  kSplitTree,
  kTree,
  kRing,
  kNvls,
  kCollNetDirect
};

struct ChannelPath {
  std::vector<int> gpus;  // of the node, in order; for NVLS the head alone
  int nic_in = -1;        // the card a ring enters through, trees and heads use
  int nic_out = -1;

  friend bool operator==(const ChannelPath&, const ChannelPath&) = default;
};

// What the search has found. Bandwidths are of one search channel.
struct Graph {
  Pattern pattern = Pattern::kRing;
  int channels = 0;
  double bw_intra = 0;                     // GB/s inside the node
  double bw_inter = 0;                     // GB/s through the cards
  PathType type_intra = PathType::kLocal;  // the farthest path used
  PathType type_inter = PathType::kPix;
  int cross_nic = 0;          // 2: a ring may leave through another card than it entered by
  bool same_channels = true;  // all channels visit the GPUs in the same order
  bool found = true;  // no: one channel in the order of the GPUs stands for what was not found
  double latency_inter = 0;        // us, of the cards
  std::vector<ChannelPath> paths;  // [channel]; empty where a graph is given as numbers alone
};

// The graphs that the algorithms run on; those of a communicator's nodes are alike.
struct Graphs {
  Graph ring;
  Graph tree;  // PAT uses it too
  Graph collnet_chain;
  Graph collnet_direct;
  Graph nvls;  // NVLSTree uses it too

  const Graph& Of(Algorithm algorithm) const;
};

// Of `nodes` such machines. Rings and trees get the same number of channels. CollNet is looked for
// only when asked for.
Graphs FindGraphs(const Node& node, int nodes, Version version, bool collnet = false);

// Compute channels: what a collective can occupy at once, each a thread block on a multiprocessor
// of its own (NVIDIA/nccl, src/graph/connect.cc, src/transport/nvls.cc).

// What the user or the framework sets: NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS, or minCTAs and
// maxCTAs of a communicator's configuration; for one that was split off, the parent's channels.
struct ChannelBounds {
  int at_least = 1;
  int at_most = kMostChannels;
  std::optional<int> parent = std::nullopt;
};

// For rings and trees. Twice the search channels, and twice that again on Hopper and later where
// there are several nodes, fewer than 16 channels, and rings faster than 45 GB/s.
int ComputeChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                    const ChannelBounds& bounds = {});

// For NVLS: 16; on Blackwell 24 in one node, 32 across several. 0 without an NVLS graph.
int NvlsChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                 const ChannelBounds& bounds = {});

}  // namespace stepcast::nccl
