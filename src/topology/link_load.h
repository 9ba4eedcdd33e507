#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/rates.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"

// What a collective over all ranks of a cluster puts on each link, by rings: over the same routes,
// channels and rails as Cluster::PathOf.
namespace stepcast::topology {

// One direction of what joins two devices, all parallel links together.
struct LinkLoad {
  std::string from;  // "node0/gpu1"; of the devices of nodes only node0's, since all are alike
  std::string to;
  DeviceKind from_kind = DeviceKind::kGpu;
  DeviceKind to_kind = DeviceKind::kGpu;
  LinkKind kind = LinkKind::kNvLink;
  int count = 1;        // parallel links
  Bandwidth bandwidth;  // of all of them
  double bytes = 0;     // that cross them in the whole collective

  double seconds() const { return bytes / static_cast<double>(bandwidth.bytes_per_second()); }
};

// With N ranks and S bytes every hop of the rings carries, all rings together: 2 (N - 1) / N S for
// all-reduce, (N - 1) / N S for reduce-scatter and all-gather, S for broadcast and reduce (but for
// the hop into the root, or out of it, which is counted as the others are). Nothing for a kind that
// does not run as a ring, a flat cluster without a link, and a single rank. Links without load are
// there with 0 bytes. Order: those of a node as in its description, then the fabric's.
std::optional<std::vector<LinkLoad>> RingLoads(const Cluster& cluster, CollectiveKind kind,
                                               Bytes bytes);

}  // namespace stepcast::topology
