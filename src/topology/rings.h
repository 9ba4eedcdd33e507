#pragma once

#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/routes.h"

// Rings over the links of a node: which GPUs follow each other, which links they cross, and how
// much every link then has to carry.
namespace stepcast::topology {

// One closed ring over GPUs of a node.
struct Cycle {
  std::vector<int> gpus;    // in ring order
  std::vector<Route> hops;  // hops[i]: from gpus[i] to the next one
};

// The rings that a set of a node's GPUs forms among itself, each carrying the same part of the
// data. None for a single GPU.
//  * Where the GPUs meet in switches one ring uses all that a GPU can send: it visits them in
//    ascending order.
//  * Where NVLinks join GPUs directly a ring uses only one link of each GPU, so rings are laid as
//    long as unused links allow, both ways round (the idea of NCCL's channel search,
//    src/graph/search.cc, with the speed fixed at one link). Where no ring can be closed so, another
//    one of the set relays between two of them (PATH_NVB of src/graph/paths.cc).
struct NodeRings {
  std::vector<Cycle> cycles;
  Time latency;               // the longest hop
  Bandwidth bandwidth;        // all rings together: what each GPU sends and receives at once
  bool nvlink = false;        // every hop stays on NVLink
  std::vector<double> loads;  // [Link::id]: rings that cross it
};

// `gpus` ascending, none twice, at least one; every pair connected.
NodeRings BuildNodeRings(const NodeRoutes& routes, const std::vector<int>& gpus);

// A node's part of the `channels` rings of a group that spans several nodes. Channel c enters and
// leaves the node through the NIC rails[c] (NCCL's rail-aligned rings, src/graph/connect.cc): it
// leaves from the GPU that owns the NIC. It enters by another GPU as near to the NIC if that is the
// owner's neighbour in the ring; else by the owner itself, and then the ring's last GPU reaches the
// NIC through the owner's memory where NVLink leads there (NCCL's PXN, src/graph/paths.cc).
struct NodeTraffic {
  std::vector<int> rails;           // [channel]: NIC
  std::vector<Time> exit_latency;   // [channel]: last GPU to NIC
  std::vector<Time> entry_latency;  // [channel]: NIC to first GPU
  // What one channel gets on the narrowest link, in bytes per second: each link divided among the
  // channels that cross it.
  double intra_rate = 0;      // links between the node's GPUs; infinite for a single GPU
  double inter_rate = 0;      // links between GPUs and NICs, and the NICs' ports
  std::vector<double> loads;  // [Link::id]: channels that cross it
};

// The NICs that a set of a node's GPUs uses, ascending.
std::vector<int> RailsOf(const NodeRoutes& routes, const std::vector<int>& gpus);

// `rings` are those of `gpus`; `port` is the bandwidth of a NIC to the fabric, one direction.
// Requires channels >= the number of rails.
NodeTraffic BuildNodeTraffic(const NodeRoutes& routes, const std::vector<int>& gpus,
                             const NodeRings& rings, Bandwidth port, int channels);

}  // namespace stepcast::topology
