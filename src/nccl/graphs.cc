#include "src/nccl/graphs.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/nccl/search.h"

namespace stepcast::nccl {
namespace {

int Bounded(int channels, const ChannelBounds& bounds) {
  channels = std::min(channels, bounds.at_most);
  if (bounds.parent) channels = std::min(channels, *bounds.parent);
  channels = std::max(channels, bounds.at_least);
  if (bounds.parent) channels = std::min(channels, *bounds.parent);
  return std::clamp(channels, 1, kMostChannels);
}

}  // namespace

int ComputeChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                    const ChannelBounds& bounds) {
  int channels = std::min(kMostChannels, graphs.ring.channels * 2);
  if (min_compute_capability >= 90 && nodes > 1 && graphs.ring.bw_intra > 45 && channels < 16) {
    channels *= 2;
  }
  return Bounded(channels, bounds);
}

int NvlsChannels(const Graphs& graphs, int nodes, int min_compute_capability,
                 const ChannelBounds& bounds) {
  if (graphs.nvls.channels == 0) return 0;
  const bool blackwell = min_compute_capability >= 100;
  return Bounded(!blackwell ? 16 : nodes > 1 ? 32 : 24, bounds);
}

const Graph& Graphs::Of(Algorithm algorithm) const {
  switch (algorithm) {
    case Algorithm::kTree:
    case Algorithm::kPat:
      return tree;
    case Algorithm::kRing:
      return ring;
    case Algorithm::kCollNetDirect:
      return collnet_direct;
    case Algorithm::kCollNetChain:
      return collnet_chain;
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      return nvls;
  }
  return ring;
}

Graphs FindGraphs(const Node& node, int nodes, Version version, bool collnet) {
  STEPCAST_CHECK(nodes >= 1, "a communicator has nodes");
  const Fabric fabric = MakeFabric(node, nodes > 1);
  Graphs graphs;
  graphs.ring = SearchGraph(node, fabric, version,
                            {.pattern = Pattern::kRing, .max_channels = kMostChannels / 2});
  const int channels = graphs.ring.channels;
  graphs.tree = SearchGraph(
      node, fabric, version,
      {.pattern = Pattern::kBalancedTree, .min_channels = channels, .max_channels = channels});
  graphs.nvls.pattern = Pattern::kNvls;
  if (node.gpus.size() > 1) {
    graphs.nvls = SearchGraph(node, fabric, version,
                              {.pattern = Pattern::kNvls, .max_channels = kMostChannels});
  }
  if (collnet) {
    graphs.collnet_chain = SearchGraph(node, fabric, version,
                                       {.pattern = Pattern::kTree,
                                        .in_network = true,
                                        .min_channels = channels,
                                        .max_channels = channels});
    graphs.collnet_direct = SearchGraph(
        node, fabric, version,
        {.pattern = Pattern::kCollNetDirect, .in_network = true, .max_channels = kMostChannels});
  }
  // The tree uses one channel if it has not as many channels as rings.
  const int common = std::min(graphs.ring.channels, graphs.tree.channels);
  graphs.ring.channels = graphs.tree.channels = common;
  graphs.ring.paths.resize(static_cast<std::size_t>(common));
  graphs.tree.paths.resize(static_cast<std::size_t>(common));
  return graphs;
}

}  // namespace stepcast::nccl
