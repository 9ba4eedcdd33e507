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

// How long each link of a cluster is busy with a group's collective, by the steps of its algorithm
// (network/group_steps.h). Loads are in proportion to the collective's size: they are found for one
// size, so large that rounding does not show. One thread at a time.
class LinkLoads {
 public:
  struct Load {
    double transfer = 0;  // seconds a byte: the links together, stage by stage
    // (link, seconds a byte), by link; without links that carry nothing.
    std::vector<std::pair<std::uint32_t, double>> busy;
  };

  // The network outlives this.
  explicit LinkLoads(const network::ClusterNetwork& network);

  // `ranks` and `algorithm` as GroupSteps::Make takes them.
  tl::expected<Load, network::Fault> Of(std::span<const int> ranks, std::string_view algorithm,
                                        CollectiveKind kind);
  // Of a message from one rank to another, for each of its bytes.
  tl::expected<Load, network::Fault> OfMessage(int from, int to);

 private:
  const network::Network& network_;
  network::GroupSteps steps_;
  network::Network::Router router_;
};

}  // namespace stepcast::cost
