#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/base/bytes.h"
#include "src/topology/node_type.h"
#include "src/topology/routes.h"

namespace stepcast::topology {

// Connections that a hash spreads over the uplinks of leaves (RouteChoice::kEcmp). Several of them
// meet on one uplink while others stay empty, and a ring goes at the rate of its slowest
// connection. With a hash that tells more queue pairs apart Meta's all-reduces became up to 40 %
// faster (Gangidi et al. 2024, "RDMA over Ethernet for Distributed AI Training at Meta Scale");
// ByteDance gives uplinks twice the rate of what hangs below, so that two may meet (Jiang et al.
// 2024, MegaScale, arXiv 2402.15627).

// Leaves alike, in one direction.
struct HashedLeaves {
  std::int64_t leaves = 0;
  std::int64_t connections = 0;  // of each leaf, that leave it at the same time
};

// The expected time of a transfer whose slowest connection sets the pace, over its time without
// collisions: E[max(1, m part)], where m is the largest number of connections that meet on an
// uplink of any leaf, each of which has `uplinks`, and `part` is what a connection takes of an
// uplink's bandwidth by itself. Every connection takes each uplink with the same probability. Exact
// up to 4096 connections x uplinks of a leaf; beyond, numbers on different uplinks count as
// independent, which is up to 1.5 % too low for one leaf and 0.1 % for sixteen (128 connections
// over 16 and 32 uplinks, 64 over 64). Requires uplinks >= 1 and part > 0.
double ExpectedSlowdown(std::span<const HashedLeaves> leaves, std::int64_t uplinks, double part);

// What the job runs on: nodes of one type joined by a fabric, and the ranks placed on them (rank r
// is GPU r mod g of node r / g, with g ranks a node). A job on a part of each node has its first g
// GPUs; the others are idle, and so is what only they use.

// Immutable, but for a cache that is guarded: threads may share one.
class Cluster {
 public:
  class Implementation;  // cluster.cc

  // `nodes` nodes of one type joined by its fabric, which a single node does not need; ranks are on
  // the first `gpus_per_node` GPUs of each, none: on all. The description must be without faults
  // (faults.h).
  Cluster(NodeType node_type, std::optional<Fabric> fabric, int nodes,
          std::optional<int> gpus_per_node = std::nullopt);
  // `devices` devices, each a node of its own behind one non-blocking switch.
  explicit Cluster(FlatCluster flat);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  int devices() const;  // that ranks are on: nodes() x gpus_per_node()
  int nodes() const;
  int gpus_per_node() const;  // that ranks are on; the node type may have more
  bool flat() const;
  const std::string& gpu() const;  // the GPU type's name; empty on a flat cluster without one
  Bytes device_memory() const;

  // The description. Null where it has no meaning: a flat cluster has no node type, any other no
  // flat description.
  const NodeType* node_type() const;
  double host_speed() const;     // NodeType::host_speed; 1 on a flat cluster
  const Fabric* fabric() const;  // null, too, for a node that stands alone
  const FlatCluster* flat_cluster() const;

  // What a group of ranks has between its members. `ranks` are distinct, in group order, at least
  // one. Deterministic; depends on which GPUs of which nodes take part, and on the order in which
  // the nodes first appear in the group, not on the order inside a node.
  //
  // Inside one node: rings.h. Across nodes: as many ring channels as the members have NICs, each
  // entering and leaving every node by its rail. Links are divided among the channels that cross
  // them. The uplinks of a leaf are divided among the nodes below it: a group that leaves its leaf
  // counts on its nodes' share of them, because the other nodes' traffic leaves at the same time.
  // On a fat tree with oversubscription k that is 1/k of what its NICs carry. Where connections are
  // hashed (RouteChoice::kEcmp) a group that leaves its leaf has the expected rate of its slowest
  // connection (cluster.h), so that a lucky hash may do better.
  // kIgnored: for those who follow each connection to the uplink that its hash says.
  enum class Collisions : std::uint8_t { kExpected, kIgnored };
  CommunicationPath PathOf(std::span<const int> ranks,
                           Collisions collisions = Collisions::kExpected) const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace stepcast::topology
