#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "boost/graph/adjacency_list.hpp"
#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/topology/communication_path.h"
#include "src/topology/node_type.h"

// What the job runs on: a graph of devices and links, and the ranks placed on it (rank r is GPU
// r mod g of node r / g, with g GPUs a node).
namespace stepcast::topology {

enum class DeviceKind : std::uint8_t {
  kGpu,
  kNvSwitch,
  kPcieSwitch,
  kCpu,
  kNic,
  kLeafSwitch,
  kSpineSwitch,
};

enum class LinkKind : std::uint8_t { kNvLink, kPcie, kCpuInterconnect, kNetwork };

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  std::string name;  // "node3/gpu1", "leaf0"
  int node = -1;     // -1: part of the fabric
  int index = 0;     // among its kind in the node or fabric
};

// One direction of a physical link.
struct Link {
  LinkKind kind = LinkKind::kNvLink;
  Time latency;
  Bandwidth bandwidth;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Device, Link>;

class Cluster {
 public:
  // `nodes` nodes of one type joined by its fabric. Descriptions must satisfy Check()
  // (node_type.h).
  Cluster(NodeType node_type, Fabric fabric, int nodes);
  // `devices` devices, each a node of its own behind one non-blocking switch.
  explicit Cluster(FlatCluster flat);

  const Graph& graph() const { return graph_; }
  int devices() const;
  int nodes() const;
  int gpus_per_node() const;
  bool flat() const;
  const std::string& gpu() const;  // the GPU type's name; empty on a flat cluster without one
  Bytes device_memory() const;

  // What a group of ranks has between its members. `ranks` are distinct, in group order, at least
  // one. Deterministic; cost grows with the links that the group's rings cross.
  CommunicationPath PathOf(std::span<const int> ranks) const;

 private:
  Graph graph_;
};

}  // namespace stepcast::topology
