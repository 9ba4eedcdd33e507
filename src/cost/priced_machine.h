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

// Computes the link loads of all groups of a layout that run the same collective on the first nodes
// of a cluster. Caches loads by value, so that clusters that differ only in the number of nodes
// share entries. Not thread-safe.
class GroupLoads {
 public:
  struct Load {
    // The index of the link. Links with the same name have the same index in all clusters.
    std::uint32_t link = 0;
    std::string_view name;  // the link's name in the network
    bool scale_up = false;  // true: a link between GPUs of a node; false: a link to the network
    double busy = 0;        // seconds per byte of the collective, for all groups
  };
  using Groups = std::vector<std::vector<int>>;

  GroupLoads();
  ~GroupLoads();

  // Returns the loads of the network's links, without idle links. `groups` are on the first `nodes`
  // nodes of a cluster with a real topology. Fails if there is no route between some ranks. The
  // result is valid until the next call.
  tl::expected<const std::vector<Load>*, network::Fault> Of(const topology::Cluster& cluster,
                                                            int nodes, const Groups& groups,
                                                            std::string_view algorithm,
                                                            CollectiveKind kind);

 private:
  struct Nodes;  // a number of nodes of one kind, with their links
  using Key = std::tuple<const Nodes*, Groups, std::string, CollectiveKind>;

  tl::expected<Nodes*, network::Fault> NodesOf(const topology::Cluster& cluster, int nodes);

  // The largest number of cached entries. If it is exceeded, the cache is cleared.
  static constexpr std::size_t kMostKnown = 4096;

  std::vector<std::unique_ptr<Nodes>> nodes_;
  std::map<Key, std::vector<Load>> known_;
  std::unordered_map<std::string, std::uint32_t> links_;  // Load::link by name
};

// The links that a group shares with its siblings: the other groups of its layout, which run the
// same collective at the same time. For example, eight replica groups of a node with four cards
// load each card twice as much as one group. Messages at the same positions of these groups also
// share links.
//
// Only two kinds of links are considered: links that the group uses, and links that another group
// of the same pipeline stage uses. For example, a stage inside a node does not wait for the cards
// of a stage that crosses nodes. Loads (link_loads.h) are summed over groups.
//
// Siblings that share no node with the group, directly or through other siblings, are ignored. The
// ignored siblings share only links above the leaves, and a path already has only its nodes' part
// of these links (Cluster::PathOf). All nodes are equal, so a large group is evaluated on only
// kMostNodes nodes. If the leaves are larger, the group is evaluated on two full leaves of up to
// kMostBelowLeaf nodes each.
class SiblingLinks {
 public:
  static constexpr int kMostNodes = 16;
  static constexpr int kMostBelowLeaf = 64;

  // Maps a group to the lists of ranks that communicate at the same time: the group itself, or
  // pairs of sender and receiver.
  using Lists = std::function<std::vector<std::vector<int>>(const std::vector<int>& group)>;

  // Finds the links that a group shares. `ranks` is a group of `layout`. A pipeline stage is
  // `stage_ranks` consecutive ranks. `cluster` and `loads` must outlive this object. Groups of all
  // clusters may share `loads`.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads);
  // Like the constructor above, but `lists` maps a group to its communicating ranks. Only for the
  // algorithm "pairwise": a message of S bytes is modeled as a kScatter of 2 S.
  SiblingLinks(const topology::Cluster& cluster, const std::vector<int>& ranks,
               const parallel::GroupLayout& layout, int stage_ranks, GroupLoads& loads,
               const Lists& lists);

  // Returns whether the group's path is not sufficient to describe its links, because siblings also
  // use them or because they connect to other nodes.
  bool count() const { return count_; }
  // Returns whether siblings use links of the group.
  bool shared() const { return shared_; }

  // The link loads of all groups together, per byte of the collective's size. `loads` must be
  // multiplied by `scale`.
  struct OnLinks {
    std::vector<GroupLoads::Load> loads;  // nodes are numbered among the evaluated nodes
    double scale = 1;
  };
  // Returns the link loads if all groups run a collective. Requires a group of at least two ranks
  // on a real topology. Fails if there is no route between some ranks.
  tl::expected<OnLinks, network::Fault> Of(std::string_view algorithm, CollectiveKind kind) const;

 private:
  const topology::Cluster* cluster_;
  int ranks_ = 0;                         // number of ranks in the group, or 2 for messages
  std::vector<std::vector<int>> groups_;  // groups on the evaluated nodes, the group itself first
  std::vector<std::vector<int>> alike_;   // groups of the same pipeline stage; empty: all groups
  bool shared_ = false;
  bool count_ = false;
  int nodes_ = 0;  // number of evaluated nodes
  GroupLoads* loads_;
};

inline constexpr int kSharedLinks = kResources - static_cast<int>(Resource::kNodeLinks);

// The links that limit concurrent collectives of a program. Every node runs the same collectives at
// the same time, so one rank represents all ranks. A collective occupies a link as long as it and
// its siblings together use the link. A link that is never busier than another link cannot be the
// limit and is removed. A few links remain, for example a GPU's own link and its card.
class SharedLinks {
 public:
  // A use of links: a group with its siblings, and the algorithm and kind of a collective.
  using Use = std::tuple<const SiblingLinks*, std::string, CollectiveKind>;
  // The busy time of each link in seconds per byte, for one use. Index 0 is Resource::kNodeLinks.
  using Busy = std::array<double, kSharedLinks>;

  // Returns the busy times of the links for each use. Fails if there is no route between some
  // ranks.
  tl::expected<std::vector<Busy>, network::Fault> Of(const std::vector<Use>& uses);

 private:
  std::map<std::vector<Use>, std::vector<Busy>> known_;
};

// A cluster with a profile and communication settings. The price of a collective depends only on
// these data, its group and its size.
struct PricedMachine {
  // A message between two members of a group. With `by_distance`, every member sends to the member
  // at the same distance. All messages then have the price of the message with the longest route.
  struct MessageRoute {
    bool by_distance = false;
    int from = 0, to = 0;  // positions in the group
    friend bool operator==(const MessageRoute&, const MessageRoute&) = default;
  };
  struct Group {
    std::vector<int> ranks;
    std::optional<MessageRoute> message;  // none: all ranks of the group communicate
    parallel::GroupLayout layout;
    int stage_ranks = 0;
    topology::CommunicationPath path;
    // The shapes of the group (or of a message's sender and receiver) and of the communicator. Set
    // only if NCCL is modeled.
    GroupShape shape, communicator;
    std::unique_ptr<SiblingLinks> siblings;  // null: the network simulation models links
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

  // Creates the machine of a scenario. `group_loads` must outlive this object.
  PricedMachine(const scenario::Scenario& scenario, GroupLoads& group_loads);

  bool IsOf(const scenario::Scenario& scenario) const;

  // Returns a group that communicates. If `message` is present, its members send messages along
  // this route. `stage_ranks` is the number of ranks per pipeline stage. The reference is valid as
  // long as this object exists.
  const Group& GroupOf(const program::ProcessGroup& wanted, int stage_ranks,
                       const std::optional<MessageRoute>& message = std::nullopt);
  // Returns the cached price of a collective, or null if there is no cached price.
  const CollectivePrice* Known(const program::Collective& collective, const Group& group) const;
  void Remember(const program::Collective& collective, const Group& group,
                const CollectivePrice& price);

  // Returns SlowestDevice (device_speed.h) for `devices` devices. Caches the last result.
  double SlowestOf(std::int64_t devices);

  // Creates a group of messages for GroupOf.
  const Group& AddMessages(const program::ProcessGroup& group, int stage_ranks,
                           const MessageRoute& message);
  topology::CommunicationPath PathOf(const std::vector<int>& ranks) const;

  // The cluster, which also determines the GPU.
  const std::shared_ptr<const topology::Cluster> cluster;
  const std::shared_ptr<const calibration::Calibration> calibration;
  const std::optional<topology::Gpu> gpu;
  const scenario::CollectiveAlgorithm algorithm;
  const std::string nccl_algo, nccl_proto;
  const bool collnet;
  const bool analytic;
  const Version version, driver;
  GroupLoads& loads;
  std::optional<NcclPricer> nccl;  // none: the textbook model, or hop by hop
  std::vector<std::unique_ptr<const Group>> groups;
  SharedLinks shared_links;
  std::unordered_map<CollectiveKey, CollectivePrice, Hash> collectives;
  std::int64_t slowest_of = 0;
  double slowest = 1;
};

}  // namespace stepcast::cost
