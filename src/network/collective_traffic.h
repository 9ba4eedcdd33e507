#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/time.h"
#include "src/collective/step_list.h"
#include "src/network/analytic.h"
#include "src/network/cluster_network.h"
#include "src/network/traffic.h"

// The traffic of the collectives and messages of step programs on a cluster's links. Created by
// cost/collective_flows.h, and read by the simulator.
namespace stepcast::network {

struct CollectiveTraffic {
  static constexpr std::uint32_t kLocal = std::numeric_limits<std::uint32_t>::max();

  struct Collective {
    // The latency, the work, and the fractions of links that the work uses. Only for flow mode.
    FlowDemand flow{};
    // The steps and their traffic. Sending begins `delay` after the start. `traffic` has a
    // reference to `list`. Only for message mode.
    std::unique_ptr<const collective::StepList> list{};
    std::unique_ptr<const Traffic> traffic{};
    Time delay{};
  };

  std::unique_ptr<const ClusterNetwork> cluster{};
  bool messages = false;  // true: message mode; false: flow mode
  // The number of links in use, or of link colors (sets of links with equal load). Only for flow
  // mode.
  std::uint32_t links = 0;
  std::vector<Collective> collectives{};
  // Indices in `collectives`, by class of ranks and by collective of the class's program. kLocal:
  // the collective uses no link. The entry of a group's first member applies.
  std::vector<std::vector<std::uint32_t>> numbers{};
  // Indices in `collectives`, by class of ranks and by message of the class's program (numbered
  // over all exchanges). kLocal: the message uses no link or is received. For a received message,
  // the sender's entry applies.
  std::vector<std::vector<std::uint32_t>> message_numbers{};
};

}  // namespace stepcast::network
