#pragma once

#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/routes.h"

// Finds rings over a node's links: the order of GPUs, the links on each hop, and the load on each
// link.
namespace stepcast::topology {

// One closed ring over GPUs of a node.
struct Cycle {
  std::vector<int> gpus;    // GPUs in ring order
  std::vector<Route> hops;  // hops[i]: from gpus[i] to the next GPU
};

// The rings among a set of a node's GPUs. Each ring transfers an equal part of the data. There are
// no rings for a single GPU.
//
// If switches connect the GPUs, one ring in ascending order uses the full bandwidth of a GPU. If
// NVLinks connect GPUs directly, a ring uses one link of each GPU. Rings are added, in both
// directions, while unused links form a ring (NCCL's channel search, src/graph/search.cc, with a
// speed of one link). If the unused links form no ring, another GPU of the set may forward data
// between two GPUs (PATH_NVB of src/graph/paths.cc).
struct NodeRings {
  std::vector<Cycle> cycles;
  Time latency;               // latency of the longest hop
  Bandwidth bandwidth;        // total of all rings: each GPU sends and receives at this rate
  bool nvlink = false;        // all hops use only NVLink
  std::vector<double> loads;  // [Link::id]: number of rings that use the link
};

// Finds the rings among `gpus`. `gpus` must not be empty, and must be ascending, distinct and
// connected pair by pair.
NodeRings BuildNodeRings(const NodeRoutes& routes, const std::vector<int>& gpus);

// A node's part of the rings of a group that spans several nodes. Each channel is one ring, which
// enters and leaves the node through NIC rails[channel] (NCCL's rail-aligned rings,
// src/graph/connect.cc). The ring leaves from the GPU that owns the NIC. The ring enters at the
// owner's ring neighbor if this neighbor is as near to the NIC as the owner. Otherwise, the ring
// enters at the owner, and the ring's last GPU reaches the NIC through the owner's memory if NVLink
// connects both GPUs (NCCL's PXN, src/graph/paths.cc).
struct NodeTraffic {
  std::vector<int> rails;           // [channel]: NIC
  std::vector<Time> exit_latency;   // [channel]: last GPU to NIC
  std::vector<Time> entry_latency;  // [channel]: NIC to first GPU
  // The bandwidth of one channel on its slowest link, in bytes per second, if channels divide links
  // evenly.
  double intra_rate = 0;      // links between the node's GPUs; infinite for a single GPU
  double inter_rate = 0;      // links between GPUs and NICs, and the NICs' ports
  std::vector<double> loads;  // [Link::id]: number of channels that use the link
};

// Returns the NICs that a set of a node's GPUs uses, ascending.
std::vector<int> RailsOf(const NodeRoutes& routes, const std::vector<int>& gpus);

// Computes a node's part of the rings. `rings` are the rings among `gpus`. `port` is the bandwidth
// from a NIC to the fabric in one direction. There must be at least as many channels as rails.
NodeTraffic BuildNodeTraffic(const NodeRoutes& routes, const std::vector<int>& gpus,
                             const NodeRings& rings, Bandwidth port, int channels);

}  // namespace stepcast::topology
