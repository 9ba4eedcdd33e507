#pragma once

#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/graph.h"
#include "src/topology/node_type.h"

namespace stepcast::topology {

// The latency and bandwidth between the members of a group of ranks, for rings and trees over the
// links. The values describe the hardware. Calibration profiles contain the effects of protocol and
// software.
struct CommunicationPath {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // largest number of ranks in a node

  // The largest latency of a hop inside a node, and the largest latency of a hop between nodes. The
  // latency of a hop is the sum over its links.
  Time intra_latency;  // between two GPUs of a node; zero when ranks_per_node is 1
  Time inter_latency;  // between two nodes; zero when nodes is 1

  // The bandwidth at which all ranks of the ring can send and receive at the same time, summed over
  // the ring's channels. Channels divide the links that they share. Zero: no hop of this kind.
  Bandwidth intra_bandwidth;  // inside nodes
  Bandwidth inter_bandwidth;  // between nodes, per node: all NICs that the channels use
  // The bandwidth of the slowest hop of the ring: the smaller nonzero value of intra_bandwidth and
  // inter_bandwidth.
  Bandwidth ring_bandwidth;

  bool intra_is_nvlink = false;  // otherwise PCIe
  bool flat = false;             // flat cluster: textbook costs, with one kind of link
};

// A link in one direction (Link::id), and the fraction of a transfer that uses it.
struct Share {
  int link = 0;
  double share = 0;
};

// A route from one device to another. If several routes are equally short, all are used. A route's
// traffic is proportional to the bandwidth of its last link that is not common to all routes, such
// as the link to an NVSwitch plane.
struct Route {
  Distance distance;
  bool nvlink = true;  // uses only NVLink
  std::vector<Share> shares;
};

// Finds shortest routes between the devices of a node. GPUs and NICs do not forward data, so GPUs
// are connected through switches, CPUs or direct links. Two GPUs that NVLink connects use only
// NVLink, independent of its latency (as in NCCL, src/graph/paths.cc). All nodes of one type share
// one object. Immutable after construction.
class NodeRoutes {
 public:
  // Finds the routes: runs Dijkstra's algorithm from every GPU, once over NVLink only and once over
  // all links.
  explicit NodeRoutes(const NodeType& node_type);

  int gpus() const { return gpus_; }
  int nics() const { return nics_; }
  // Returns the number of directed links inside the node. Ids run from 0 to links() - 1.
  int links() const { return static_cast<int>(links_.size()); }
  const Link& link(int id) const { return links_[static_cast<std::size_t>(id)]; }

  bool Connected(int from_gpu, int to_gpu) const;
  // Returns the number of parallel NVLinks that connect two GPUs without a switch.
  int DirectNvLinks(int from_gpu, int to_gpu) const;
  bool ReachesNic(int gpu, int nic) const;
  // Returns the distance from a GPU to a NIC. ReachesNic must return true for this pair.
  Distance DistanceToNic(int gpu, int nic) const;

  // These functions return a route, which must exist.
  Route BetweenGpus(int from, int to) const;
  Route ToNic(int gpu, int nic) const;
  Route FromNic(int nic, int gpu) const;

  // Returns the NICs of a GPU, in ascending order: the GPUs with the same nearest NICs divide these
  // NICs among themselves. If there are fewer NICs than GPUs, several GPUs use one NIC. Empty if
  // the GPU reaches no NIC.
  const std::vector<int>& NicsOf(int gpu) const { return nics_of_[static_cast<std::size_t>(gpu)]; }

 private:
  using Distances = std::vector<Distance>;  // [vertex]

  const Distance& DistanceTo(int gpu, Vertex vertex) const {
    return distances_[static_cast<std::size_t>(gpu)][vertex];
  }
  bool JoinedByNvLink(int from_gpu, int to_gpu) const;
  Route RouteTo(int gpu, Vertex target, const Distances& distances, bool nvlink_only) const;
  void DealNics();

  int gpus_ = 0;
  int nics_ = 0;
  Vertex first_nic_ = 0;
  Graph graph_;
  std::vector<Link> links_;                  // indexed by Link::id
  std::vector<Distances> distances_;         // [gpu]: over all links
  std::vector<Distances> nvlink_distances_;  // [gpu]: over NVLink only
  std::vector<std::vector<int>> nics_of_;    // [gpu]
};

}  // namespace stepcast::topology
