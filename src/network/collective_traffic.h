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

// How the collectives and messages of step programs go over a cluster's links: values that the
// simulator runs on. cost/collective_flows.h makes it.
namespace stepcast::network {

struct CollectiveTraffic {
  static constexpr std::uint32_t kLocal = std::numeric_limits<std::uint32_t>::max();

  struct Collective {
    // As flows: its latency, its work, and what it uses of links during that.
    FlowDemand flow{};
    // Message by message: it sends from `delay` after its start. `traffic` is on `list`.
    std::unique_ptr<const collective::StepList> list{};
    std::unique_ptr<const Traffic> traffic{};
    Time delay{};
  };

  std::unique_ptr<const ClusterNetwork> cluster{};
  bool messages = false;  // message by message; else as flows
  // As flows: so many links, or kinds of links of which each carries the same, are what they use.
  std::uint32_t links = 0;
  std::vector<Collective> collectives{};
  // [class of ranks][collective of its program]: in `collectives`; kLocal: it crosses no link. What
  // counts is what the first member of a group says.
  std::vector<std::vector<std::uint32_t>> numbers{};
  // [class of ranks][message of its program, numbered through all exchanges]: likewise; kLocal
  // for those it receives, which are their senders'.
  std::vector<std::vector<std::uint32_t>> message_numbers{};
};

}  // namespace stepcast::network
