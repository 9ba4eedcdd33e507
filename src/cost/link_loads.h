#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/network/cluster_network.h"
#include "src/network/group_steps.h"
#include "src/network/network.h"
#include "tl/expected.hpp"

namespace stepcast::cost {

// Computes the time for which a group's collective occupies each link of a cluster, from the steps
// of its algorithm (network/group_steps.h). Loads are proportional to the collective's size. Not
// thread-safe.
class LinkLoads {
 public:
  struct Load {
    double transfer = 0;  // seconds per byte, summed over all links
    // Pairs of a link and its busy time in seconds per byte, ordered by link. Idle links are
    // omitted.
    std::vector<std::pair<std::uint32_t, double>> busy;
  };

  // The network must outlive this object.
  explicit LinkLoads(const network::ClusterNetwork& network);

  // Returns the load of a collective. For `ranks` and `algorithm`, see GroupSteps::Make.
  tl::expected<Load, network::Fault> Of(std::span<const int> ranks, std::string_view algorithm,
                                        CollectiveKind kind);
  // Returns the load per byte of a message from one rank to another.
  tl::expected<Load, network::Fault> OfMessage(int from, int to);

 private:
  const network::Network& network_;
  network::GroupSteps steps_;
  network::Network::Router router_;
};

}  // namespace stepcast::cost
