#pragma once

#include <vector>

#include "src/nccl/graphs.h"

namespace stepcast::nccl {

// The ranks of one ring in the order in which data passes; the last one sends to the first. Rank =
// node x GPUs per node + GPU.
struct Ring {
  std::vector<int> ranks;
  // [node]: the cards that the ring enters and leaves it by; -1 in one node.
  std::vector<int> nic_in;
  std::vector<int> nic_out;
};

// The ring of every search channel across `nodes` alike nodes: the last GPU of a node's path sends
// to the first of the next (NVIDIA/nccl, src/graph/connect.cc). Where rings leave by another card
// than they enter by (cross_nic 2), odd nodes swap channels 2i and 2i + 1, so that what left by a
// card of one rail arrives on the same rail. Compute channel c runs on the ring of search channel
// c modulo their number.
std::vector<Ring> MakeRings(const Graph& ring, int nodes);

}  // namespace stepcast::nccl
