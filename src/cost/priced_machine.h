#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/version.h"
#include "src/cost/group_loads.h"
#include "src/cost/nccl_price.h"
#include "src/cost/prices.h"
#include "src/cost/shared_links.h"
#include "src/cost/sibling_links.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/topology/cluster.h"

namespace stepcast::cost {

// A cluster with a profile and the settings of communication: what prices of collectives depend on
// beside the group and the size.
struct PricedMachine {
  // A message between members of a group. Where peers are named by distance one price stands for
  // the messages of all members, the farthest of them.
  struct MessageRoute {
    bool by_distance = false;
    int from = 0, to = 0;  // positions
    friend bool operator==(const MessageRoute&, const MessageRoute&) = default;
  };
  struct Group {
    std::vector<int> ranks;
    std::optional<MessageRoute> message;  // none: all of its ranks communicate
    parallel::GroupLayout layout;
    int stage_ranks = 0;
    topology::CommunicationPath path;
    // Where NCCL is modelled: of the ranks, or of a message's ends, and of its communicator.
    GroupShape shape, communicator;
    std::unique_ptr<SiblingLinks> siblings;  // null: the network sees to links that are shared
  };
  struct CollectiveKey {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Bytes bytes;
    const Group* group = nullptr;
    friend bool operator==(const CollectiveKey&, const CollectiveKey&) = default;
  };
  struct Hash {
    std::size_t operator()(const CollectiveKey& key) const {
      const std::uint64_t group = std::hash<const Group*>()(key.group);
      const auto bytes = static_cast<std::uint64_t>(key.bytes.count());
      const std::uint64_t hash =
          (bytes * 0x9E3779B97F4A7C15 ^ group) + static_cast<std::uint64_t>(key.kind);
      return hash ^ hash >> 32;
    }
  };

  // `group_loads` outlives it.
  PricedMachine(const scenario::Scenario& scenario, GroupLoads& group_loads);

  bool IsOf(const scenario::Scenario& scenario) const;

  // A group that communicates, or, of whose members messages go along a route, where pipeline
  // stages have so many ranks each. Stays as long as the machine.
  const Group& GroupOf(const program::ProcessGroup& wanted, int stage_ranks,
                       const std::optional<MessageRoute>& message = std::nullopt);
  // Cached prices of collectives that were priced without diagnostics.
  const CollectivePrice* Known(const program::Collective& collective, const Group& group) const;
  void Remember(const program::Collective& collective, const Group& group,
                const CollectivePrice& price);

  // See slowest_device.h; the last one stays.
  double SlowestOf(std::int64_t devices);

  // For GroupOf.
  const Group& AddMessages(const program::ProcessGroup& group, int stage_ranks,
                           const MessageRoute& message);
  topology::CommunicationPath PathOf(const std::vector<int>& ranks) const;

  // The GPU is part of what the cluster was read from.
  const std::shared_ptr<const topology::Cluster> cluster;
  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const scenario::CollectiveAlgorithm algorithm;
  const std::string nccl_algo, nccl_proto;
  const bool collnet;
  const bool analytic;
  const Version version, driver;
  GroupLoads& loads;
  std::optional<NcclPricer> nccl;  // none: textbook, or hop by hop
  std::vector<std::unique_ptr<const Group>> groups;
  SharedLinks shared_links;
  std::unordered_map<CollectiveKey, CollectivePrice, Hash> collectives;
  std::int64_t slowest_of = 0;
  double slowest = 1;
};

}  // namespace stepcast::cost
