#include "src/nccl/graphs.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/nccl/fabric.h"
#include "src/nccl/search.h"

namespace stepcast::nccl {

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
  // The tree falls back to one channel where there are not as many as rings.
  const int common = std::min(graphs.ring.channels, graphs.tree.channels);
  graphs.ring.channels = graphs.tree.channels = common;
  graphs.ring.paths.resize(static_cast<std::size_t>(common));
  graphs.tree.paths.resize(static_cast<std::size_t>(common));
  return graphs;
}

}  // namespace stepcast::nccl
