#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/network/network.h"
#include "src/topology/cluster.h"
#include "tl/expected.hpp"

namespace stepcast::cost {

// What links carry when several groups of ranks run the same collective at once: of the first nodes
// of a cluster, kept by value. Clusters that differ in the number of their nodes alone look at the
// same few nodes again and again (sibling_links.h). Not to be used by two threads at once.
class GroupLoads {
 public:
  struct Load {
    // The same in clusters of more nodes, of whatever kind, as far as links are called the same.
    std::uint32_t link = 0;
    std::string_view name;  // as the network calls it
    bool scale_up = false;  // GPUs of a node meet over it; else it leads to the network
    double busy = 0;        // with all groups together, in seconds for each byte of the size
  };
  using Groups = std::vector<std::vector<int>>;

  GroupLoads();
  ~GroupLoads();

  // By link of the network; without links that carry nothing. `groups` are on the first `nodes`
  // nodes of a cluster on a real topology. Fails as flow does, where there is no way between ranks.
  // The answer lives until the next one is asked for.
  tl::expected<const std::vector<Load>*, network::Fault> Of(const topology::Cluster& cluster,
                                                            int nodes, const Groups& groups,
                                                            std::string_view algorithm,
                                                            CollectiveKind kind);

 private:
  struct Nodes;  // so many of a kind, with their links
  using Key = std::tuple<const Nodes*, Groups, std::string, CollectiveKind>;

  tl::expected<Nodes*, network::Fault> NodesOf(const topology::Cluster& cluster, int nodes);

  // Beyond so many all are forgotten.
  static constexpr std::size_t kMostKnown = 4096;

  std::vector<std::unique_ptr<Nodes>> nodes_;
  std::map<Key, std::vector<Load>> known_;
  std::unordered_map<std::string, std::uint32_t> links_;  // by name: Load::link
};

}  // namespace stepcast::cost
