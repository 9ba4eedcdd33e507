#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/rates.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"

// Computes the load that a ring collective over all ranks of a cluster puts on each link. Routes,
// channels and rails come from Cluster::PathOf.
namespace stepcast::topology {

// The load of one direction of the connection between two devices, including all parallel links.
struct LinkLoad {
  std::string from;  // "node0/gpu1"; only devices of node0, because all nodes have equal loads
  std::string to;
  DeviceKind from_kind = DeviceKind::kGpu;
  DeviceKind to_kind = DeviceKind::kGpu;
  LinkKind kind = LinkKind::kNvLink;
  int count = 1;        // number of parallel links
  Bandwidth bandwidth;  // total of all parallel links
  double bytes = 0;     // bytes that cross these links in one collective

  double seconds() const { return bytes / static_cast<double>(bandwidth.bytes_per_second()); }
};

// Returns the load of each link. Idle links are included with 0 bytes. The node's links come first,
// in the order of the node's description, then the fabric's links.
//
// With N ranks and S bytes, the total over all rings on every hop is 2 (N - 1) / N x S for
// all-reduce, (N - 1) / N x S for reduce-scatter and all-gather, and S for broadcast and reduce.
// (For broadcast and reduce, the hop into or out of the root has the same load as the other hops.)
// Returns nullopt for a kind that does not run as a ring, for a flat cluster without a link, and
// for a single rank.
std::optional<std::vector<LinkLoad>> RingLoads(const Cluster& cluster, CollectiveKind kind,
                                               Bytes bytes);

}  // namespace stepcast::topology
