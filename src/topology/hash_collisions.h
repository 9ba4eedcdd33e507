#pragma once

#include <cstdint>
#include <span>

// Connections that a hash spreads over the uplinks of leaves (RouteChoice::kEcmp). Several of them
// meet on one uplink while others stay empty, and a ring goes at the rate of its slowest
// connection. With a hash that tells more queue pairs apart Meta's all-reduces became up to 40 %
// faster (Gangidi et al. 2024, "RDMA over Ethernet for Distributed AI Training at Meta Scale");
// ByteDance gives uplinks twice the rate of what hangs below, so that two may meet (Jiang et al.
// 2024, MegaScale, arXiv 2402.15627).
namespace stepcast::topology {

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

}  // namespace stepcast::topology
