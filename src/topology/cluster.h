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

// Computes the slowdown from hash collisions. A hash distributes connections over the uplinks of
// leaves (RouteChoice::kEcmp), so several may use one uplink while others are idle. A ring runs at
// the rate of its slowest connection. With a hash that distinguishes more queue pairs, Meta's
// all-reduces were up to 40 % faster (Gangidi et al. 2024, "RDMA over Ethernet for Distributed AI
// Training at Meta Scale"). ByteDance's uplinks have twice the rate of a downlink, enough for two
// connections (Jiang et al. 2024, MegaScale, arXiv 2402.15627).

// Identical leaf switches. Only one direction of their uplinks is considered.
struct HashedLeaves {
  std::int64_t leaves = 0;
  std::int64_t connections = 0;  // number of connections that leave each leaf at the same time
};

// Returns the expected duration of a transfer that waits for its slowest connection, divided by its
// duration without collisions: E[max(1, m x part)]. Here, m is the largest number of connections on
// any uplink of any leaf. `part` is the fraction of an uplink's bandwidth that one connection uses.
// A connection uses each of the leaf's `uplinks` uplinks with the same probability.
//
// Exact up to 4096 connections x uplinks per leaf. Beyond this limit, uplinks are treated as
// independent. The result is then at most 1.5 % too low for one leaf, and at most 0.1 % too low for
// sixteen leaves. These errors were found with 128 connections over 16 or 32 uplinks, and with 64
// connections over 64 uplinks. Requires uplinks >= 1 and part > 0.
double ExpectedSlowdown(std::span<const HashedLeaves> leaves, std::int64_t uplinks, double part);

// The hardware of a job: nodes of one type, the fabric that connects them, and the ranks on the
// nodes. Rank r is GPU r mod g of node r / g, where g is the number of ranks per node. If g is less
// than the node's number of GPUs, the job uses the first g GPUs. The other GPUs and their links are
// idle.

// A cluster of nodes. The class is immutable except for a mutex-guarded cache, so threads may share
// a cluster.
class Cluster {
 public:
  class Implementation;  // cluster.cc

  // Describes a cluster of `nodes` nodes of one type, connected by `fabric`. A single node needs no
  // fabric. Ranks use the first `gpus_per_node` GPUs of each node; by default, all GPUs. The
  // description must have no faults (faults.h).
  Cluster(NodeType node_type, std::optional<Fabric> fabric, int nodes,
          std::optional<int> gpus_per_node = std::nullopt);
  // Describes a flat cluster: each node has one device, and one non-blocking switch connects the
  // nodes.
  explicit Cluster(FlatCluster flat);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  int devices() const;  // number of devices with ranks: nodes() x gpus_per_node()
  int nodes() const;
  int gpus_per_node() const;  // number of GPUs with ranks; the node type may have more GPUs
  bool flat() const;
  const std::string& gpu() const;  // the GPU type's name; may be empty on a flat cluster
  Bytes device_memory() const;

  // The description of the cluster. node_type() and fabric() return null on a flat cluster;
  // flat_cluster() returns null on any other cluster.
  const NodeType* node_type() const;
  double host_speed() const;     // NodeType::host_speed; 1 on a flat cluster
  const Fabric* fabric() const;  // also null for a single node
  const FlatCluster* flat_cluster() const;

  // Returns the path between the members of a group. `ranks` is not empty; its ranks are distinct
  // and in group order. The result depends on the group's GPUs and on the order in which nodes
  // first appear, but not on the order inside a node.
  //
  // For a group inside one node, see rings.h. Across nodes, the group has as many ring channels as
  // its members have NICs. Each channel enters and leaves every node by the channel's rail.
  // Channels divide the links that they cross. The nodes of a leaf divide its uplinks evenly,
  // because all send at the same time. On a fat tree with oversubscription k, a group that spans
  // leaves therefore gets 1/k of its NICs' bandwidth.
  //
  // With hashed connections (RouteChoice::kEcmp), a group that spans leaves gets the expected rate
  // of its slowest connection (ExpectedSlowdown). kIgnored is for callers that assign each
  // connection to its hashed uplink.
  enum class Collisions : std::uint8_t { kExpected, kIgnored };
  CommunicationPath PathOf(std::span<const int> ranks,
                           Collisions collisions = Collisions::kExpected) const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace stepcast::topology
