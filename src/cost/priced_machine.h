#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/version.h"
#include "src/cost/demand.h"
#include "src/cost/nccl_price.h"
#include "src/cost/prices.h"
#include "src/network/network.h"
#include "src/parallel/group_layout.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"
#include "src/topology/cluster.h"
#include "tl/expected.hpp"

namespace stepcast::cost {

// What links carry when several groups of ranks run the same collective at once: of the first nodes
// of a cluster, kept by value. Clusters that differ in the number of their nodes alone look at the
// same few nodes again and again (priced_machine.h). Not to be used by two threads at once.
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

// The links that a group shares with its siblings: the other groups of its layout, which run the
// same collective at the same time. Eight replica groups of a node with four cards put twice as
// much on each card as one group does. Likewise for messages: what one member of a group sends to
// another moves at the same time as between the members at these positions in every other group.
//
// Of the links, those count that the group uses, or another one for which its ranks stand, those of
// the same pipeline stage: a stage whose ranks meet inside of a node does not wait for the cards of
// one that crosses nodes.
//
// Loads are those of flow (link_loads.h), added up over groups. Siblings that have no node in
// common with the group, nor with one that has, and so on, are left out: what they share are links
// above the leaves, of which a path counts its nodes' part alone (Cluster::PathOf). Nodes are
// copies, so groups on more than kMostNodes nodes are looked at on that many, or on two whole
// leaves where these are larger, up to kMostBelowLeaf nodes each.
class SiblingLinks {
 public:
  static constexpr int kMostNodes = 16;
  static constexpr int kMostBelowLeaf = 64;

  // The lists of ranks that communicate at the same time, of a group's ranks: the group itself, or
  // pairs of which the first sends to the second.
  using Lists = std::function<std::vector<std::vector<int>>(const std::vector<int>& group)>;

  // `ranks`: a group of `layout`. `stage_ranks`: of each pipeline stage, one behind the other.
  // `cluster` outlives this, and so do `loads`, which all groups of all clusters may share.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads);
  // Collectives of the algorithm "pairwise" alone: of messages of S bytes, a kScatter of 2 S.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads,
               const Lists& lists);

  // Whether there are links of which a path of the group does not say all: siblings use them, too,
  // or they lead to other nodes.
  bool count() const { return count_; }
  // Whether siblings use them, as far as this looks.
  bool shared() const { return shared_; }

  // What links carry, with all groups together, for one byte of the size: `loads` times `scale`.
  struct OnLinks {
    std::vector<GroupLoads::Load> loads;  // the nodes looked at are numbered from 0
    double scale = 1;
  };
  // Bytes by link of a collective that all groups run. Requires a group of at least two ranks on a
  // real topology. Fails as flow does, where there is no route between ranks.
  tl::expected<OnLinks, network::Fault> Of(std::string_view algorithm, CollectiveKind kind) const;

 private:
  const topology::Cluster* cluster_;
  int ranks_ = 0;                         // of the group, or of a pair
  std::vector<std::vector<int>> groups_;  // on `nodes`, the group itself first
  std::vector<std::vector<int>> alike_;   // of these, those of its stage; empty: all of them
  bool shared_ = false;
  bool count_ = false;
  int nodes_ = 0;  // that they are on, numbered from 0
  GroupLoads* loads_;
};

inline constexpr int kSharedLinks = kResources - static_cast<int>(Resource::kNodeLinks);

// The links that decide how the collectives of a program hinder each other.
//
// In every node the same happens at the same time, so one rank's collectives stand for all: each
// uses a link for as long as it and its siblings do together. Of two links of which one is never
// busier than the other, whatever runs, only the other can decide. Those that are left are a few:
// where shards meet behind PCIe switches and replicas over cards, a GPU's own link and the card.
class SharedLinks {
 public:
  // A group with its siblings, the algorithm and the kind of a collective.
  using Use = std::tuple<const SiblingLinks*, std::string, CollectiveKind>;
  // Seconds for each byte of the size that a use keeps each of the links busy: in the order of
  // resources from kNodeLinks on.
  using Busy = std::array<double, kSharedLinks>;

  // For each of the uses that a program has. Fails as SiblingLinks::Of.
  tl::expected<std::vector<Busy>, network::Fault> Of(const std::vector<Use>& uses);

 private:
  std::map<std::vector<Use>, std::vector<Busy>> known_;
};

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

  // See device_speed.h; the last one stays.
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
