#pragma once

#include "src/base/rates.h"
#include "src/base/time.h"

namespace stepcast::topology {

// What a group of ranks has between its members, as rings and trees over the links see it. Wire
// figures: no protocol, no software, no efficiency (those are calibration).
struct CommunicationPath {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // the largest count in a node

  // One hop of the ring: the sum of the latencies of the links crossed, the worst of its class.
  Time intra_latency;  // between two GPUs of a node; zero when ranks_per_node is 1
  Time inter_latency;  // between two nodes; zero when nodes is 1

  // What every rank can send and receive at once when neighbours in the ring do so, over all the
  // ring's channels together: the narrowest cut of the links crossed, after dividing each link
  // among the channels that cross it. Zero where there is no such hop.
  Bandwidth intra_bandwidth;  // inside nodes
  Bandwidth inter_bandwidth;  // between nodes: all NICs that the channels use, per node
  // What the slowest hop of the ring sustains: the smaller of the two that exist.
  Bandwidth ring_bandwidth;

  bool intra_is_nvlink = false;  // else PCIe
  bool flat = false;             // a flat cluster: textbook costs on one kind of link
};

}  // namespace stepcast::topology
