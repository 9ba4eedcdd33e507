#include "src/nccl/channels.h"

#include <algorithm>

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

}  // namespace stepcast::nccl
