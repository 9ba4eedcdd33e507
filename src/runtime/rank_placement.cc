#include "src/runtime/rank_placement.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <set>

namespace stepcast::runtime {
namespace {

struct Node {
  std::string host;
  std::set<int> local_ranks;
};

}  // namespace

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::vector<Place> PlacesOf(const std::vector<RankPlacement>& ranks) {
  std::vector<Node> nodes;
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlacement& own = ranks[rank];
    std::size_t node = 0;
    while (node < nodes.size() &&
           (nodes[node].host != own.host ||
            (own.local_rank >= 0 && nodes[node].local_ranks.contains(own.local_rank)))) {
      ++node;
    }
    if (node == nodes.size()) nodes.push_back({own.host, {}});
    int local_rank = own.local_rank;
    if (local_rank < 0) {
      for (local_rank = 0; nodes[node].local_ranks.contains(local_rank); ++local_rank) {
      }
    }
    nodes[node].local_ranks.insert(local_rank);
    places.push_back({.rank = static_cast<int>(rank),
                      .ranks = static_cast<int>(ranks.size()),
                      .local_rank = local_rank,
                      .local_ranks = 1,
                      .node = static_cast<int>(node),
                      .nodes = 1,
                      .host = own.host});
  }
  for (Place& place : places) {
    place.local_ranks =
        static_cast<int>(nodes[static_cast<std::size_t>(place.node)].local_ranks.size());
    place.nodes = static_cast<int>(nodes.size());
  }
  return places;
}

}  // namespace stepcast::runtime
