#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/topology/node_type.h"

namespace stepcast::topology {

// A mistake in a description. `field` is the dotted path used in topology files
// ("node.links[3].bandwidth", "fabric.spines", "nodes").
struct Fault {
  std::string field;
  std::string message;
  std::string hint;
};

// The limits of descriptions. Within these limits, a graph can be built, and sums over the graph
// fit into 64 bits.
inline constexpr int kMostNodeDevices = 1024;  // per kind and node
inline constexpr int kMostNodeLinks = 20'000;  // linked pairs in a node
inline constexpr int kMostParallelLinks = 1024;
inline constexpr int kMostDevices = 1'000'000;  // devices of a cluster
inline constexpr int kMostConnections = 1024;   // queue pairs between two NICs
inline constexpr int kMostSpines = 1024;
constexpr Time kMostLatency = Seconds(1);
constexpr Bandwidth kMostBandwidth = Bandwidth::GigabytesPerSecond(1'000'000);

// Returns all faults in a description of `nodes` nodes of this type with this fabric. A Cluster may
// be constructed only from a description without faults. The name of the GPU type is not checked,
// because it refers to a file.
std::vector<Fault> FaultsOf(const NodeType& node_type, const std::optional<Fabric>& fabric,
                            int nodes);
std::vector<Fault> FaultsOf(const FlatCluster& flat);

}  // namespace stepcast::topology
