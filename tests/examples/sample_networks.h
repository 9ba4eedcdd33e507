#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/collective/step_list.h"
#include "src/network/network.h"

// Networks for tests.
namespace stepcast::network {

// A network of nodes with `ranks_per_node` ranks. Each rank is linked to its node's switch (over
// NVLink) and, by rail, to the fabric's switch for its position. All rails meet in one more switch.
// The places are the ranks node by node, the nodes' switches, and the fabric's topmost switch.
struct SampleNetwork {
  Network network;
  int ranks = 0;
  int nodes = 0;

  // Returns the place of each participant, for a list with as many ranks as the network. A
  // participant that is a switch is the node's switch or, for "collnet", the fabric's switch. NVLS
  // over all ranks as one node uses the topmost switch.
  std::vector<int> PlacesOf(const collective::StepList& list) const;
};

// Returns a sample network. The latency and bandwidth of each link are drawn from `seed`. If `seed`
// is 0, every link has 1 us and 10 GB/s.
SampleNetwork MakeSampleNetwork(int nodes, int ranks_per_node, std::uint32_t seed);

// Returns a network of ranks on one switch. Each rank's link has a bandwidth in each direction, and
// a latency that applies only from the rank to the switch.
Network MakeStar(const std::vector<Time>& latencies, const std::vector<Bandwidth>& bandwidths);

}  // namespace stepcast::network
