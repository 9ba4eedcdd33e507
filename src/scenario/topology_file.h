#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

// Topologies as YAML: a node type with its fabric, or a flat cluster.
//
//  kind: nodes                   # default
//  name: NVIDIA DGX H100
//  sources: [...]                # free text: origins of the values
//  node:
//    gpu: h100-sxm               # topologies/gpus/h100-sxm.yaml, or the path of a .yaml file
//    devices: {gpu: 8, nvswitch: 4, pcie_switch: 4, cpu: 2, nic: 8}    # default: none
//    links:                      # in both directions; latency and bandwidth are per direction
//      - {kind: nvlink, from: gpu, to: "nvswitch[0, 3]", join: all-to-all, count: 5,
//         latency: 250 ns, bandwidth: 25 GB/s}
//  fabric:                       # optional for a single node
//    kind: rail-optimised
//    ...
//
// A link's `kind` is nvlink, pcie or cpu-interconnect. `from` and `to` are device sets
// (topology/node_type.h). `join` is in-order (default: the larger set is distributed over the
// smaller) or all-to-all. `count` parallel links join each pair (default 1); `bandwidth` is the
// bandwidth of one link.
//
// Fabrics (`link` is the port of each NIC):
//  {kind: one-switch, link: {latency, bandwidth}}
// Fabrics with spines also have `routing` (adaptive, static, ecmp; default adaptive) and
// `connections` (the queue pairs between two NICs that ecmp distinguishes; default 2).
//  {kind: rail-optimised, link: ..., nodes_per_unit, rails (default: the node's NICs), spines,
//   uplink: {latency, bandwidth}}               # uplink: one leaf to one spine
//  {kind: fat-tree, link: ..., nodes_per_leaf, spines, uplink: {latency}, oversubscription
//   (default 1: as much bandwidth above a leaf as below it)}
//
//  kind: flat
//  devices: 4                    # the total number: a flat cluster has no `nodes`
//  memory: 80 GiB                # optional with `gpu`; default: the GPU's memory
//  gpu: h100-sxm                 # optional; without a GPU, only layer lists can be simulated
//  link: {latency: 5 us, bandwidth: 25 GB/s}    # optional; without a link, only tables give costs
//
// Errors, in addition to the errors of document.h: topology.unknown-gpu, topology.no-peak
// (gpu_file.h), topology.bad-devices (a device set), topology.impossible (topology/faults.h),
// topology.nodes (`nodes` is missing, or is set for a flat cluster).
namespace stepcast::scenario {

// A node type and the fabric between nodes.
struct NodeDescription {
  topology::NodeType node_type;
  std::optional<topology::Fabric> fabric;
};

// A topology without the number of nodes, which the scenario states.
struct Topology {
  std::string name;
  std::variant<NodeDescription, topology::FlatCluster> description;
  std::optional<topology::Gpu> gpu;  // not set only on a flat cluster without a GPU
  std::string note;                  // note for the forecast's warnings; may be empty
};

// Reads a topology, including the data sheet of its GPU.
std::optional<Topology> ReadTopology(const Node& node, Diagnostics& diagnostics);
Result<Topology> LoadTopology(const std::string& path);

// The routing in a scenario, which replaces the fabric's routing.
struct RoutingRequest {
  std::optional<topology::RouteChoice> choice;
  std::optional<std::int64_t> seed;
};
std::optional<topology::RouteChoice> ReadRouting(MappingReader& reader, const char* key);

// Builds a cluster with ranks on the first `gpus_per_node` GPUs of each node (not set: all GPUs).
// `nodes` is the number of nodes; not set for a flat cluster. Errors about this number are reported
// at `location`.
std::optional<topology::Cluster> BuildCluster(const Topology& topology,
                                              std::optional<std::int64_t> nodes,
                                              const Location& location, Diagnostics& diagnostics,
                                              const RoutingRequest& routing = {},
                                              std::optional<int> gpus_per_node = std::nullopt);

}  // namespace stepcast::scenario
