#pragma once

#include <optional>

#include "src/nccl/graph.h"
#include "src/nccl/graphs.h"

// Compute channels: what a collective can occupy at once, each a thread block on a multiprocessor
// of its own (NVIDIA/nccl, src/graph/connect.cc, src/transport/nvls.cc).
namespace stepcast::nccl {

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
