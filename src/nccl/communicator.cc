#include "src/nccl/communicator.h"

#include <algorithm>

#include "src/nccl/graphs.h"

namespace stepcast::nccl {

Communicator MakeCommunicator(const Node& node, int nodes, Version version) {
  Communicator result;
  result.version = version;
  result.nodes = nodes;
  result.most_local_ranks = static_cast<int>(node.gpus.size());
  result.ranks = nodes * result.most_local_ranks;
  result.collnet =
      nodes > 1 && !node.nics.empty() &&
      std::all_of(node.nics.begin(), node.nics.end(), [](const Nic& nic) { return nic.reduces; });
  result.graphs = FindGraphs(node, nodes, version, result.collnet);
  result.collnet_gathers = result.collnet;
  result.collnet_heads = std::min(result.graphs.collnet_direct.channels, result.most_local_ranks);
  result.cpu = node.cpu;
  const auto [oldest, newest] = std::minmax_element(
      node.gpus.begin(), node.gpus.end(),
      [](const Gpu& a, const Gpu& b) { return a.compute_capability < b.compute_capability; });
  result.min_compute_capability = oldest->compute_capability;
  result.max_compute_capability = newest->compute_capability;
  result.compute_channels = ComputeChannels(result.graphs, nodes, result.min_compute_capability);
  result.nvls_channels = NvlsChannels(result.graphs, nodes, result.min_compute_capability);
  result.nvswitch = std::all_of(node.gpus.begin(), node.gpus.end(),
                                [](const Gpu& gpu) { return gpu.nvswitch_links > 0; });
  return result;
}

}  // namespace stepcast::nccl
