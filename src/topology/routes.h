#pragma once

#include <vector>

#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/graph.h"
#include "src/topology/graph_search.h"
#include "src/topology/node_type.h"

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

// The part of a transfer that crosses one direction of a link (Link::id).
struct Share {
  int link = 0;
  double share = 0;
};

// A way from one device to another. Where several are equally short, all are used, each in
// proportion to the bandwidth of its last differing link: the planes of an NVSwitch fabric.
struct Route {
  Distance distance;
  bool nvlink = true;  // crosses nothing but NVLink
  std::vector<Share> shares;
};

// Shortest routes between the devices of a node. GPUs and NICs end routes; they do not forward for
// others, so a node's GPUs meet through switches, CPUs or links of their own. Two GPUs that NVLink
// joins use nothing else, whatever its latency (NCCL ranks kinds of paths in the same way,
// src/graph/paths.cc).
// Nodes of a cluster are copies, so one of these serves all. Immutable after construction.
class NodeRoutes {
 public:
  // Runs Dijkstra's algorithm from every GPU, over NVLink alone and over all links.
  explicit NodeRoutes(const NodeType& node_type);

  int gpus() const { return gpus_; }
  int nics() const { return nics_; }
  // Directed links inside the node: ids 0 to links() - 1.
  int links() const { return static_cast<int>(links_.size()); }
  const Link& link(int id) const { return links_[static_cast<std::size_t>(id)]; }

  bool Connected(int from_gpu, int to_gpu) const;
  // Parallel NVLinks that join two GPUs without a switch.
  int DirectNvLinks(int from_gpu, int to_gpu) const;
  bool ReachesNic(int gpu, int nic) const;
  // Requires ReachesNic.
  Distance DistanceToNic(int gpu, int nic) const;

  // Require that such a route exists.
  Route BetweenGpus(int from, int to) const;
  Route ToNic(int gpu, int nic) const;
  Route FromNic(int nic, int gpu) const;

  // The NICs through which a GPU communicates: the nearest; where several GPUs have the same
  // nearest ones, they are dealt out among those GPUs. Ascending; empty when it reaches none.
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
  std::vector<Link> links_;                  // by id
  std::vector<Distances> distances_;         // [gpu]: over all links
  std::vector<Distances> nvlink_distances_;  // [gpu]: over NVLink alone
  std::vector<std::vector<int>> nics_of_;    // [gpu]
};

}  // namespace stepcast::topology
