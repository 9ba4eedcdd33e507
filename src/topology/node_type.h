#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/transport.h"
#include "src/topology/device.h"
#include "tl/expected.hpp"

namespace stepcast::topology {

// The description of a cluster: the contents of topologies/*.yaml as values. faults.h checks
// descriptions.

struct LinkSpec {
  Time latency;
  Bandwidth bandwidth;  // one direction
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

// A set of devices of one kind in a node, such as "nvswitch[0, 3]".
struct DeviceSet {
  DeviceKind kind = DeviceKind::kGpu;
  std::vector<int> indices;  // in the written order, without duplicates
  friend bool operator==(const DeviceSet&, const DeviceSet&) = default;
};

// How the devices of two sets are paired.
enum class Join : std::uint8_t {
  // Distributes the larger set evenly and in order over the smaller set. For example, gpu[0..7]
  // with pcie_switch[0..3] puts GPUs 0 and 1 on switch 0. Sets of equal size are paired one to one.
  kInOrder,
  // Pairs each device of one set with each device of the other set. Within a single set, every pair
  // occurs once.
  kAllToAll,
};
const char* Name(Join join);  // "in-order", "all-to-all"

// A rule for identical links between devices of a node. The links have both directions.
struct LinkRule {
  LinkKind kind = LinkKind::kNvLink;
  DeviceSet from;
  DeviceSet to;
  Join join = Join::kInOrder;
  int count = 1;  // number of parallel links per pair
  LinkSpec link;  // latency and bandwidth of one link
  friend bool operator==(const LinkRule&, const LinkRule&) = default;
};

// Returns the pairs that a rule links, in a fixed order. Each pair has the index of a `from` device
// and the index of a `to` device. A rule without faults has at least one pair.
std::vector<std::pair<int, int>> PairsOf(const LinkRule& rule);

// The processor families that NCCL distinguishes. The family determines the bandwidth between two
// sockets and the rows of NCCL's tables.
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

// The resources of a node's host, to which GPU states can be offloaded.
struct Host {
  Bytes memory;
  Bandwidth memory_bandwidth;       // total of all memory channels
  Bytes nvme;                       // total of all drives; zero: no drives
  Bandwidth nvme_read, nvme_write;  // totals of all drives
  friend bool operator==(const Host&, const Host&) = default;
};

// One server, or one rack if NVLink spans the rack: all devices within one NVLink domain.
struct NodeType {
  std::string name;                             // "DGX H100"
  std::string gpu;                              // names topologies/gpus/<gpu>.yaml
  Bytes gpu_memory;                             // memory of each GPU, from the data sheet
  std::array<int, kNodeDeviceKinds> devices{};  // numbers of devices, indexed by DeviceKind
  std::vector<LinkRule> links;
  Processor processor = Processor::kIntelSapphireRapids;
  std::optional<Host> host{};  // not set: offloading is not possible
  // The speed of a host core when it runs a framework's code, relative to the reference host of
  // published host costs (calibration::FrameworkCosts).
  double host_speed = 1;

  friend bool operator==(const NodeType&, const NodeType&) = default;

  int Count(DeviceKind kind) const { return devices[static_cast<std::size_t>(kind)]; }
};

enum class FabricKind : std::uint8_t {
  kOneSwitch,  // every NIC is connected to one non-blocking switch
  // Leaf i of a scalable unit connects NIC i of each node of the unit; spines connect leaves.
  kRailOptimised,
  kFatTree,  // all NICs of a node are connected to one leaf; spines connect leaves
};
const char* Name(FabricKind kind);  // "one-switch", "rail-optimised", "fat-tree"

// How traffic that leaves a leaf is distributed over the spines.
enum class RouteChoice : std::uint8_t {
  kAdaptive,  // over all spines at any time (InfiniBand's adaptive routing, packet spraying)
  kStatic,    // over one spine per destination, assigned in order (InfiniBand's forwarding tables)
  kEcmp,      // over one spine per connection, chosen by a hash (Ethernet's equal-cost multi-path)
};
const char* Name(RouteChoice choice);  // "adaptive", "static", "ecmp"

struct Routing {
  RouteChoice choice = RouteChoice::kAdaptive;
  std::int64_t seed = 0;  // seed of the hash
  friend bool operator==(const Routing&, const Routing&) = default;
};

// TCP connections, which NCCL uses if there is no RDMA (Transport::kSockets).
struct Sockets {
  // The bandwidth of one connection. On AWS, a connection reaches 10 Gbit/s between instances of
  // one cluster placement group, and 5 Gbit/s otherwise ("Amazon EC2 instance network bandwidth",
  // general knowledge).
  Bandwidth flow = Bandwidth::BytesPerSecond(1'250'000'000);
  // The number of connections from a channel to its peer: NCCL_SOCKET_NTHREADS x
  // NCCL_NSOCKS_PERTHREAD. NCCL's default is 1; on AWS it is 16, and on Google's gVNIC it is 4
  // (src/transport/net_socket.cc of NVIDIA/nccl).
  int per_channel = 1;
  friend bool operator==(const Sockets&, const Sockets&) = default;
};

// The network between nodes, with at most two tiers of switches.
struct Fabric {
  FabricKind kind = FabricKind::kOneSwitch;
  LinkSpec link;  // NIC to switch, each direction
  Transport transport = Transport::kInfiniband;
  Sockets sockets{};       // used with Transport::kSockets
  int nodes_per_unit = 0;  // rail-optimised: nodes per scalable unit; fat-tree: nodes per leaf
  int rails = 0;           // rail-optimised: leaves per unit; NIC i is on leaf i mod rails
  int spines = 0;          // every leaf has one uplink to each spine
  LinkSpec uplink;         // leaf to spine, each direction; fat-tree: see SetOversubscription
  bool sharp = false;      // the switches can reduce data in transit (SHARP)
  Routing routing{};
  // The number of queue pairs between two NICs that exchange data. A hash routes each queue pair
  // separately. NCCL uses every ring and tree twice (connect.cc, "Duplicate channels"). By default,
  // each copy has one queue pair (NCCL_IB_QPS_PER_CONNECTION = 1).
  int connections = 2;
  // A leaf's bandwidth to its nodes divided by its bandwidth to the spines. Set for fat trees; used
  // only for output.
  double oversubscription = 1;
  friend bool operator==(const Fabric&, const Fabric&) = default;
};

// Sets a fat tree's uplinks so that a full leaf has `ratio` times as much bandwidth to its nodes as
// to the spines. The link's bandwidth, nodes_per_unit, spines, nics_per_node and ratio must be
// positive.
void SetOversubscription(Fabric& fabric, int nics_per_node, double ratio);

struct FlatCluster {
  int devices = 0;
  Bytes memory;
  std::string gpu;               // empty: unknown
  std::optional<LinkSpec> link;  // not set: collective times come only from the tables in the
                                 // profile
};

// Consecutive nodes of one type, in rank order. A cluster with several types of nodes is a list of
// these groups, connected by one fabric.
struct NodesOfType {
  const NodeType* type = nullptr;
  LinkSpec link{};  // NIC to switch, each direction; unused for a single node
  int nodes = 0;
  std::optional<int> ranks_per_node{};  // ranks on the first GPUs of each node; not set: all GPUs

  int gpus_with_ranks() const { return ranks_per_node.value_or(type->Count(DeviceKind::kGpu)); }
};

// Device sets in the syntax of topology files and drawings. A kind without brackets means all
// devices of the kind. Otherwise, indices and inclusive ranges follow in brackets: gpu, gpu[3],
// nvswitch[0, 3], gpu[0..3], nic[0, 4..7].

struct DeviceSetError {
  std::string message;
  std::string hint;
};

// Parses a device set for a node with `devices` devices of each kind. Fails if a device does not
// exist or appears twice.
tl::expected<DeviceSet, DeviceSetError> ParseDeviceSet(
    std::string_view text, const std::array<int, kNodeDeviceKinds>& devices);

// Returns a text from which ParseDeviceSet reads the same set. Ranges are merged, as in
// "gpu[0..7]".
std::string Format(const DeviceSet& set);

}  // namespace stepcast::topology
