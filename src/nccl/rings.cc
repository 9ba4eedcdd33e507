#include "src/nccl/rings.h"

#include <cstddef>

#include "src/base/check.h"

namespace stepcast::nccl {

std::vector<Ring> MakeRings(const Graph& ring, int nodes) {
  STEPCAST_CHECK(static_cast<int>(ring.paths.size()) == ring.channels,
                 "rings need the paths of their channels");
  const bool swaps = ring.cross_nic == 2 && ring.channels % 2 == 0;
  std::vector<Ring> rings(ring.paths.size());
  for (std::size_t channel = 0; channel < rings.size(); ++channel) {
    Ring& result = rings[channel];
    for (int node = 0; node < nodes; ++node) {
      const ChannelPath& path = ring.paths[swaps && node % 2 == 1 ? channel ^ 1 : channel];
      const int first = node * static_cast<int>(path.gpus.size());
      for (int gpu : path.gpus) result.ranks.push_back(first + gpu);
      result.nic_in.push_back(path.nic_in);
      result.nic_out.push_back(path.nic_out);
    }
  }
  return rings;
}

}  // namespace stepcast::nccl
