#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/transport.h"
#include "src/topology/device.h"

namespace stepcast::topology {

// Descriptions from which a cluster's graph is built: topologies/*.yaml as values. What makes one
// usable is said, and checked, in faults.h.

struct LinkSpec {
  Time latency;
  Bandwidth bandwidth;  // one direction
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

// Devices of one kind in a node: "nvswitch[0, 3]".
struct DeviceSet {
  DeviceKind kind = DeviceKind::kGpu;
  std::vector<int> indices;  // as written, none twice
  friend bool operator==(const DeviceSet&, const DeviceSet&) = default;
};

// Which pairs of two sets are linked.
enum class Join : std::uint8_t {
  // The larger set is dealt out to the smaller in order, evenly: gpu[0..7] with pcie_switch[0..3]
  // puts GPUs 0 and 1 on switch 0. Sets of one size pair up one to one.
  kInOrder,
  // Each with each; within one set, every pair once.
  kAllToAll,
};
const char* Name(Join join);  // "in-order", "all-to-all"

// Links between devices of a node, alike in everything. They run in both directions.
struct LinkRule {
  LinkKind kind = LinkKind::kNvLink;
  DeviceSet from;
  DeviceSet to;
  Join join = Join::kInOrder;
  int count = 1;  // parallel links of each pair
  LinkSpec link;  // of one of them
  friend bool operator==(const LinkRule&, const LinkRule&) = default;
};

// The pairs (index in `from`'s kind, index in `to`'s kind) that a rule links, in a fixed order.
// A rule without faults has at least one.
std::vector<std::pair<int, int>> PairsOf(const LinkRule& rule);

// The processors that matter to communication libraries: by them NCCL knows what two sockets
// exchange, and picks rows of its tables.
enum class Processor : std::uint8_t {
  kIntelBroadwell,
  kIntelSkylake,
  kIntelSapphireRapids,
  kIntelEmeraldRapids,
  kAmd,
  kArm,
  kPower9,
};
const char* Name(Processor processor);  // "intel-skylake", "amd"

// What a node's CPUs have: where states go that are offloaded from GPUs.
struct Host {
  Bytes memory;
  Bandwidth memory_bandwidth;       // of all its channels
  Bytes nvme;                       // of its drives; zero: none
  Bandwidth nvme_read, nvme_write;  // of all drives together
  friend bool operator==(const Host&, const Host&) = default;
};

// One server, or one rack where NVLink spans the rack: the devices among which NVLink runs.
struct NodeType {
  std::string name;                             // "DGX H100"
  std::string gpu;                              // names topologies/gpus/<gpu>.yaml
  Bytes gpu_memory;                             // of each GPU, from that file
  std::array<int, kNodeDeviceKinds> devices{};  // how many, indexed by DeviceKind
  std::vector<LinkRule> links;
  Processor processor = Processor::kIntelSapphireRapids;
  std::optional<Host> host{};  // not known: nothing can be offloaded
  // Of a core of the host at a framework's code, against the reference host's, which published host
  // costs are of (calibration::FrameworkCosts).
  double host_speed = 1;

  friend bool operator==(const NodeType&, const NodeType&) = default;

  int Count(DeviceKind kind) const { return devices[static_cast<std::size_t>(kind)]; }
};

enum class FabricKind : std::uint8_t {
  kOneSwitch,      // every NIC on one non-blocking switch
  kRailOptimised,  // leaf i of a scalable unit connects NIC i of all its nodes; leaves meet in
                   // spines
  kFatTree,        // all NICs of a node on one leaf; leaves meet in spines
};
const char* Name(FabricKind kind);  // "one-switch", "rail-optimised", "fat-tree"

// How what leaves a leaf is spread over the spines.
enum class RouteChoice : std::uint8_t {
  kAdaptive,  // over all of them at any time: InfiniBand's adaptive routing, packets sprayed
  kStatic,    // every destination has one spine, dealt out in order: InfiniBand's forwarding tables
  kEcmp,      // every connection has one spine, by a hash: equal-cost multi-path of Ethernet
};
const char* Name(RouteChoice choice);  // "adaptive", "static", "ecmp"

struct Routing {
  RouteChoice choice = RouteChoice::kAdaptive;
  std::int64_t seed = 0;  // of the hash
  friend bool operator==(const Routing&, const Routing&) = default;
};

// TCP connections, over which NCCL sends where there is no RDMA (Transport::kSockets).
struct Sockets {
  // What one connection carries. A connection of AWS carries 10 Gbit/s between instances of one
  // cluster placement group, 5 else ("Amazon EC2 instance network bandwidth", general knowledge).
  Bandwidth flow = Bandwidth::BytesPerSecond(1'250'000'000);
  // Connections of a channel to its peer: NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD, by default
  // 1 (16 on AWS, 4 on Google's gVNIC: src/transport/net_socket.cc of NVIDIA/nccl).
  int per_channel = 1;
  friend bool operator==(const Sockets&, const Sockets&) = default;
};

// The network between nodes: two tiers at most.
struct Fabric {
  FabricKind kind = FabricKind::kOneSwitch;
  LinkSpec link;  // NIC to switch, each direction
  Transport transport = Transport::kInfiniband;
  Sockets sockets{};       // of Transport::kSockets
  int nodes_per_unit = 0;  // rail-optimised: nodes of a scalable unit; fat-tree: nodes below a leaf
  int rails = 0;           // rail-optimised: leaves of a unit; NIC i hangs on leaf i mod rails
  int spines = 0;          // every leaf has one uplink to every spine
  LinkSpec uplink;         // leaf to spine, each direction; fat-tree: see SetOversubscription
  bool sharp = false;      // its switches reduce what passes through them
  Routing routing{};
  // Queue pairs between two NICs that exchange data, each of which a hash sends its own way. NCCL
  // runs every ring and tree twice (connect.cc, "Duplicate channels") and has a queue pair for each
  // (NCCL_IB_QPS_PER_CONNECTION, by default 1).
  int connections = 2;
  double oversubscription = 1;  // fat-tree, for output: bandwidth below a leaf over that above it
  friend bool operator==(const Fabric&, const Fabric&) = default;
};

// Sets a fat tree's uplinks so that a full leaf has `ratio` times as much bandwidth to its nodes as
// to the spines. Requires positive link, nodes_per_unit, spines, NIC count and ratio.
void SetOversubscription(Fabric& fabric, int nics_per_node, double ratio);

struct FlatCluster {
  int devices = 0;
  Bytes memory;
  std::string gpu;               // empty: none
  std::optional<LinkSpec> link;  // absent: collectives come from the profile's tables alone
};

// Nodes of one type, one behind another in the order of ranks. A cluster of several kinds of nodes
// is several of them behind one another, below the switches of one fabric.
struct NodesOfType {
  const NodeType* type = nullptr;
  LinkSpec link{};  // NIC to switch, each direction; of a node that stands alone anything
  int nodes = 0;
  std::optional<int> ranks_per_node{};  // on the first GPUs of each; none: on all of them

  int gpus_with_ranks() const { return ranks_per_node.value_or(type->Count(DeviceKind::kGpu)); }
};

}  // namespace stepcast::topology
