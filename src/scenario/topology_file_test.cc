#include "src/scenario/topology_file.h"

#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/base/transport.h"
#include "src/scenario/data_root.h"
#include "src/topology/routes.h"

namespace stepcast::scenario {
namespace {

using topology::Cluster;
using topology::CommunicationPath;

// "line:column code" of each, in order.
std::vector<std::string> Summary(const Diagnostics& diagnostics) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(fmt::format("{}:{} {}", diagnostic.location.line, diagnostic.location.column,
                                diagnostic.code));
  }
  return lines;
}

Cluster Shipped(const std::string& name, int nodes) {
  const std::optional<std::string> path = FindInput("topologies/" + name + ".yaml", "");
  EXPECT_TRUE(path.has_value()) << name;
  const Result<Topology> topology = LoadTopology(path.value_or(""));
  if (!topology.has_value()) ADD_FAILURE() << Format(topology.error());
  Diagnostics diagnostics;
  std::optional<Cluster> cluster = BuildCluster(*topology, nodes, {}, diagnostics);
  EXPECT_TRUE(cluster.has_value()) << Format(diagnostics);
  return *std::move(cluster);
}

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Figures of a shipped topology, in GB/s and ns.
struct Expected {
  const char* name;
  const char* gpu;
  int gpus;
  bool nvlink;
  double node;       // ring inside one node
  int node_latency;  // its longest hop
  double network;    // between two nodes, all GPUs taking part
  int network_latency;
  double ring;  // over both nodes
  double own;   // between two GPUs in different nodes
};

// Derivation of the figures:
//  * NVSwitch: every link of a GPU serves one ring; two links of 250 ns per hop.
//  * PCIe only: the ring takes each GPU's link of 32 GB/s once each way; GPU, switch, CPU, CPU, switch,
//    GPU is 4 x 150 + 200 ns.
//  * Network: NICs x port. GPU, switch, NIC 2 x 150 ns; two ports of 600 ns; NIC, switch, GPU. 8 x
//    25, 8 x 50, 72 x 50, 4 x 12.5, 32 x 12.5 GB/s.
//  * gb200-nvl72, gb300-nvl72: GPU, Grace, NIC 400 + 150 ns; 72 x 100 GB/s.
//  * pcie-8gpu: two NICs of 25 GB/s. Each of the two channels also shares the PCIe link of GPU 0
//    (or 4) with the other channel's ring: 32 GB/s for both.
//  * AWS: ports of 5 us. On a P5 each GPU has its own four NICs, so the last GPU of the ring
//    reaches them through its memory, 500 ns more; a lone GPU uses all four.
constexpr Expected kShipped[] = {
    {"dgx-a100-40gb", "a100-sxm-40gb", 8, true, 300, 500, 200, 1800, 200, 25},
    {"dgx-a100", "a100-sxm-80gb", 8, true, 300, 500, 200, 1800, 200, 25},
    {"dgx-h100", "h100-sxm", 8, true, 450, 500, 400, 1800, 400, 50},
    {"dgx-h200", "h200", 8, true, 450, 500, 400, 1800, 400, 50},
    {"dgx-b200", "b200", 8, true, 900, 500, 400, 1800, 400, 50},
    {"gb200-nvl72", "gb200", 72, true, 900, 500, 3600, 2300, 900, 50},
    {"gb300-nvl72", "gb300", 72, true, 900, 500, 7200, 2300, 900, 100},
    {"pcie-8gpu", "l40s", 8, false, 32, 800, 32, 1800, 32, 25},
    {"aws-p4d", "a100-sxm-40gb", 8, true, 300, 500, 50, 10600, 50, 12.5},
    {"aws-p5", "h100-sxm", 8, true, 450, 500, 400, 11100, 400, 50},
};

TEST(ShippedTopologies, GiveTheirFigures) {
  for (const Expected& expected : kShipped) {
    SCOPED_TRACE(expected.name);
    const Cluster cluster = Shipped(expected.name, 2);
    EXPECT_EQ(cluster.gpu(), expected.gpu);
    EXPECT_EQ(cluster.gpus_per_node(), expected.gpus);
    EXPECT_EQ(cluster.devices(), 2 * expected.gpus);
    EXPECT_GT(cluster.device_memory(), GiB(30));
    EXPECT_FALSE(cluster.flat());

    const CommunicationPath node = cluster.PathOf(FirstRanks(expected.gpus));
    EXPECT_EQ(node.nodes, 1);
    EXPECT_EQ(node.intra_is_nvlink, expected.nvlink);
    EXPECT_EQ(node.intra_bandwidth.gigabytes_per_second(), expected.node);
    EXPECT_EQ(node.ring_bandwidth, node.intra_bandwidth);
    EXPECT_EQ(node.intra_latency, Nanoseconds(expected.node_latency));
    EXPECT_EQ(node.inter_bandwidth, Bandwidth());

    const CommunicationPath both = cluster.PathOf(FirstRanks(2 * expected.gpus));
    EXPECT_EQ(both.nodes, 2);
    EXPECT_EQ(both.ranks_per_node, expected.gpus);
    EXPECT_EQ(both.intra_bandwidth, node.intra_bandwidth);
    EXPECT_EQ(both.intra_latency, node.intra_latency);
    EXPECT_EQ(both.inter_bandwidth.gigabytes_per_second(), expected.network);
    EXPECT_EQ(both.inter_latency, Nanoseconds(expected.network_latency));
    EXPECT_EQ(both.ring_bandwidth.gigabytes_per_second(), expected.ring);

    for (int gpu = 0; gpu < expected.gpus; ++gpu) {
      if (!expected.nvlink && gpu % 4 >= 2) continue;  // not on the NIC's switch: further away
      const std::vector<int> pair = {gpu, expected.gpus + gpu};
      const CommunicationPath alone = cluster.PathOf(pair);
      EXPECT_EQ(alone.ranks_per_node, 1);
      EXPECT_EQ(alone.intra_bandwidth, Bandwidth());
      EXPECT_EQ(alone.ring_bandwidth.gigabytes_per_second(), expected.own) << gpu;
    }
  }
}

// The shipped fabrics are non-blocking: leaving a unit costs two uplinks of 300 ns, no bandwidth.
TEST(ShippedTopologies, KeepTheirBandwidthAcrossUnits) {
  for (const char* name : {"dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72"}) {
    SCOPED_TRACE(name);
    const Cluster near = Shipped(name, 2);
    const Cluster far = Shipped(name, 64);
    const CommunicationPath within = near.PathOf(FirstRanks(near.devices()));
    const CommunicationPath across = far.PathOf(FirstRanks(far.devices()));
    EXPECT_EQ(across.inter_bandwidth, within.inter_bandwidth);
    EXPECT_EQ(across.inter_latency, within.inter_latency + Nanoseconds(600));
  }
}

std::optional<Topology> Read(std::string_view text, Diagnostics& diagnostics) {
  const std::optional<Node> node = ParseDocument(text, "t.yaml", diagnostics);
  if (!node) return std::nullopt;
  return ReadTopology(*node, diagnostics);
}

std::vector<std::string> Mistakes(std::string_view text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(Read(text, diagnostics).has_value());
  return Summary(diagnostics);
}

TEST(FlatTopology, TakesItsMemoryFromTheGpuUnlessGiven) {
  Diagnostics diagnostics;
  const auto given = Read(
      "{kind: flat, devices: 4, memory: 80 GiB, gpu: h100-sxm,"
      " link: {latency: 5 us, bandwidth: 25 GB/s}}",
      diagnostics);
  ASSERT_TRUE(given.has_value()) << Format(diagnostics);
  const auto cluster = BuildCluster(*given, std::nullopt, {}, diagnostics);
  ASSERT_TRUE(cluster.has_value());
  EXPECT_TRUE(cluster->flat());
  EXPECT_EQ(cluster->devices(), 4);
  EXPECT_EQ(cluster->nodes(), 4);
  EXPECT_EQ(cluster->gpus_per_node(), 1);
  EXPECT_EQ(cluster->gpu(), "h100-sxm");
  EXPECT_EQ(cluster->device_memory(), GiB(80));
  const CommunicationPath path = cluster->PathOf(FirstRanks(4));
  EXPECT_TRUE(path.flat);
  EXPECT_EQ(path.ranks_per_node, 1);
  EXPECT_EQ(path.inter_latency, Microseconds(5));
  EXPECT_EQ(path.ring_bandwidth, Bandwidth::GigabytesPerSecond(25));

  const auto from_gpu = Read("{kind: flat, devices: 4, gpu: a100-sxm-40gb}", diagnostics);
  ASSERT_TRUE(from_gpu.has_value()) << Format(diagnostics);
  const auto without_link = BuildCluster(*from_gpu, std::nullopt, {}, diagnostics);
  EXPECT_EQ(without_link->device_memory(), Bytes(42405855232));
  EXPECT_EQ(without_link->PathOf(FirstRanks(4)).ring_bandwidth, Bandwidth());

  const auto without_gpu = Read("{kind: flat, devices: 4, memory: 1 GiB}", diagnostics);
  ASSERT_TRUE(without_gpu.has_value());
  EXPECT_FALSE(without_gpu->gpu.has_value());
  EXPECT_TRUE(BuildCluster(*without_gpu, std::nullopt, {}, diagnostics)->gpu().empty());
  EXPECT_TRUE(diagnostics.empty());
}

TEST(FlatTopology, ReportsWhatIsWrong) {
  EXPECT_EQ(Mistakes("kind: flat\ndevices: 4\n"),
            (std::vector<std::string>{"1:1 input.missing-key"}));
  EXPECT_EQ(Mistakes("kind: flat\n"
                     "devices: 0\n"
                     "memory: 80\n"
                     "link: {latency: 5, bandwidth: 0 GB/s, width: 3}\n"
                     "nodes: 2\n"
                     "nodees: 2\n"),
            (std::vector<std::string>{"2:10 input.out-of-range", "3:9 input.bad-quantity",
                                      "4:17 input.bad-quantity", "4:31 input.out-of-range",
                                      "4:39 input.unknown-key", "5:8 topology.nodes",
                                      "6:1 input.unknown-key"}));
  EXPECT_EQ(Mistakes("{kind: flat, devices: 4, memory: 1 GiB, link: {latency: 2 s, bandwidth: 1 "
                     "GB/s}}"),
            (std::vector<std::string>{"1:57 topology.impossible"}));
  EXPECT_EQ(Mistakes("{kind: flat, devices: 4, gpu: h1000}"),
            (std::vector<std::string>{"1:31 topology.unknown-gpu"}));
  EXPECT_EQ(Mistakes("{kind: cube}"), (std::vector<std::string>{"1:8 input.unknown-word"}));
}

TEST(FlatTopology, RefusesNodes) {
  Diagnostics diagnostics;
  const auto flat = Read("{kind: flat, devices: 4, memory: 1 GiB}", diagnostics);
  ASSERT_TRUE(flat.has_value());
  EXPECT_FALSE(BuildCluster(*flat, 2, {"s.yaml", 7, 10}, diagnostics).has_value());
  EXPECT_EQ(Summary(diagnostics), (std::vector<std::string>{"7:10 topology.nodes"}));
}

constexpr std::string_view kServer = R"(name: mine
node:
  gpu: l40s
  devices: {gpu: 2, pcie_switch: 1, nic: 1}
  links:
    - {kind: pcie, from: gpu, to: pcie_switch, latency: 100 ns, bandwidth: 32 GB/s}
    - {kind: pcie, from: nic, to: pcie_switch, latency: 100 ns, bandwidth: 32 GB/s}
)";

std::string With(std::string_view text, std::string_view what, std::string_view instead) {
  std::string changed(text);
  const std::size_t at = changed.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? changed : changed.replace(at, what.size(), instead);
}

TEST(NodeTopology, StandsAloneWithoutAFabric) {
  Diagnostics diagnostics;
  const auto server = Read(kServer, diagnostics);
  ASSERT_TRUE(server.has_value()) << Format(diagnostics);
  const auto one = BuildCluster(*server, 1, {}, diagnostics);
  ASSERT_TRUE(one.has_value()) << Format(diagnostics);
  EXPECT_EQ(one->PathOf(FirstRanks(2)).ring_bandwidth, Bandwidth::GigabytesPerSecond(32));

  EXPECT_FALSE(BuildCluster(*server, 2, {"s.yaml", 4, 3}, diagnostics).has_value());
  EXPECT_EQ(Summary(diagnostics), (std::vector<std::string>{"4:3 topology.nodes"}));
  EXPECT_EQ(diagnostics[0].message, "2 nodes of 'mine': 2 nodes need a fabric that connects them");
}

TEST(NodeTopology, AHostHasASpeedWithOrWithoutAMemory) {
  const auto with = [](std::string_view host) {
    return With(kServer, "  links:", "  host: " + std::string(host) + "\n  links:");
  };
  Diagnostics diagnostics;
  const auto plain = Read(kServer, diagnostics);
  const auto slow = Read(with("{speed: 0.5}"), diagnostics);
  ASSERT_TRUE(plain && slow) << Format(diagnostics);
  const auto node = [](const Topology& topology) {
    return std::get<NodeDescription>(topology.description).node_type;
  };
  EXPECT_EQ(node(*plain).host_speed, 1);
  EXPECT_EQ(node(*slow).host_speed, 0.5);
  EXPECT_FALSE(node(*slow).host.has_value());
  EXPECT_EQ(Mistakes(with("{speed: 0}")).size(), 1u);
  EXPECT_EQ(Mistakes(with("{speed: 2, memory: 1 TiB}")).size(), 1u);
}

// The power limit is set by the operator and is not part of the chip's data sheet.
TEST(NodeTopology, ANodeMayLimitThePowerOfItsGpus) {
  const auto with = [](std::string_view limit) {
    return With(kServer, "  links:", "  power_limit: " + std::string(limit) + "\n  links:");
  };
  Diagnostics diagnostics;
  const auto plain = Read(kServer, diagnostics);
  const auto limited = Read(with("250 W"), diagnostics);
  ASSERT_TRUE(plain && limited) << Format(diagnostics);
  const auto limit = [](const Topology& topology) { return topology.gpu->power_limit; };
  EXPECT_EQ(limit(*limited), 250);
  EXPECT_EQ(limit(*plain), 350);
  for (const char* wrong : {"450", "0 W", "-3 W", "4.5 W", "450 V", "W", "1000000 W"}) {
    EXPECT_EQ(Mistakes(with(wrong)), std::vector<std::string>{"5:16 input.bad-quantity"}) << wrong;
  }
  // Neither more than the board is built for nor less than any driver sets.
  for (const char* wrong : {"701 W", "100 W"}) {
    EXPECT_EQ(Mistakes(With(with(wrong), "l40s", "h100-sxm")),
              std::vector<std::string>{"5:16 topology.power-limit"})
        << wrong;
  }
}

TEST(NodeTopology, NeedsANumberOfNodes) {
  Diagnostics diagnostics;
  const auto server = Read(kServer, diagnostics);
  ASSERT_TRUE(server.has_value());
  EXPECT_FALSE(BuildCluster(*server, std::nullopt, {"s.yaml", 4, 3}, diagnostics).has_value());
  EXPECT_FALSE(BuildCluster(*server, 0, {"s.yaml", 4, 3}, diagnostics).has_value());
  EXPECT_FALSE(BuildCluster(*server, 600'000, {"s.yaml", 4, 3}, diagnostics).has_value());
  EXPECT_EQ(diagnostics.size(), 4u);  // 600,000 nodes: too many, and no fabric
  for (const Diagnostic& diagnostic : diagnostics) EXPECT_EQ(diagnostic.code, "topology.nodes");
}

TEST(NodeTopology, ReadsEveryFabric) {
  const struct {
    const char* fabric;
    double between;  // GB/s between all GPUs of 4 nodes
  } kCases[] = {
      {"{kind: one-switch, link: {latency: 1 us, bandwidth: 80 Gbps}}", 10},
      // Rails default to the NICs of a node: one. Units of 2 nodes share 3 uplinks of 5 GB/s.
      {"{kind: rail-optimised, link: {latency: 1 us, bandwidth: 80 Gbps}, nodes_per_unit: 2,"
       " spines: 3, uplink: {latency: 1 us, bandwidth: 40 Gbps}}",
       7.5},
      {"{kind: fat-tree, link: {latency: 1 us, bandwidth: 80 Gbps}, nodes_per_leaf: 2, spines: 4,"
       " uplink: {latency: 1 us}}",
       10},
      {"{kind: fat-tree, link: {latency: 1 us, bandwidth: 80 Gbps}, nodes_per_leaf: 2, spines: 4,"
       " uplink: {latency: 1 us}, oversubscription: 4}",
       2.5},
  };
  for (const auto& test : kCases) {
    Diagnostics diagnostics;
    const auto topology = Read(fmt::format("{}fabric: {}\n", kServer, test.fabric), diagnostics);
    ASSERT_TRUE(topology.has_value()) << Format(diagnostics);
    const auto cluster = BuildCluster(*topology, 4, {}, diagnostics);
    ASSERT_TRUE(cluster.has_value()) << Format(diagnostics);
    EXPECT_DOUBLE_EQ(cluster->PathOf(FirstRanks(8)).inter_bandwidth.gigabytes_per_second(),
                     test.between)
        << test.fabric;
  }
}

TEST(NodeTopology, ReadsRouting) {
  const std::string tree =
      "fabric: {kind: fat-tree, link: {latency: 1 us, bandwidth: 80 Gbps}, nodes_per_leaf: 2, "
      "spines: 4, uplink: {latency: 1 us}";
  const auto fabric = [&](const std::string& more, const RoutingRequest& own = {}) {
    Diagnostics diagnostics;
    const auto topology = Read(fmt::format("{}{}{}}}\n", kServer, tree, more), diagnostics);
    EXPECT_TRUE(topology.has_value()) << Format(diagnostics);
    return *BuildCluster(*topology, 4, {}, diagnostics, own)->fabric();
  };
  using enum topology::RouteChoice;
  EXPECT_EQ(fabric("").routing.choice, kAdaptive);
  EXPECT_EQ(fabric("").connections, 2);
  EXPECT_EQ(fabric(", routing: static").routing.choice, kStatic);
  EXPECT_EQ(fabric(", routing: ecmp, connections: 8").routing.choice, kEcmp);
  EXPECT_EQ(fabric(", routing: ecmp, connections: 8").connections, 8);
  // A scenario's own routing takes precedence over the file's.
  const topology::Fabric own = fabric(", routing: ecmp", {.choice = kStatic, .seed = 7});
  EXPECT_EQ(own.routing.choice, kStatic);
  EXPECT_EQ(own.routing.seed, 7);
  EXPECT_EQ(Mistakes(fmt::format("{}{}, routing: hash, connections: 0}}\n", kServer, tree)).size(),
            2U);
  // One switch has nothing to choose from.
  EXPECT_EQ(Mistakes(fmt::format("{}fabric: {{kind: one-switch, link: {{latency: 1 us, bandwidth: "
                                 "80 Gbps}}, routing: ecmp}}\n",
                                 kServer))
                .size(),
            1U);
}

TEST(NodeTopology, AFabricHasATransport) {
  const auto with = [](std::string_view transport) {
    return fmt::format(
        "{}fabric: {{kind: one-switch, link: {{latency: 1 us, bandwidth: 80 Gbps}}{}}}\n", kServer,
        transport);
  };
  const auto transport_of = [&](std::string_view transport) {
    Diagnostics diagnostics;
    const auto topology = Read(with(transport), diagnostics);
    EXPECT_TRUE(topology.has_value()) << Format(diagnostics);
    return BuildCluster(*topology, 4, {}, diagnostics)->fabric()->transport;
  };
  EXPECT_EQ(transport_of(""), Transport::kInfiniband);
  for (const Transport transport : kTransports) {
    EXPECT_EQ(transport_of(fmt::format(", transport: {}", Name(transport))), transport);
  }
  EXPECT_EQ(transport_of(", transport: tcp"), Transport::kSockets);  // as it was called before
  EXPECT_EQ(Mistakes(with(", transport: pigeons")).size(), 1U);
}

TEST(NodeTopology, SocketsSayWhatAConnectionCarries) {
  const auto with = [](std::string_view more) {
    return fmt::format(
        "{}fabric: {{kind: one-switch, link: {{latency: 1 us, bandwidth: 80 Gbps}}{}}}\n", kServer,
        more);
  };
  const auto sockets_of = [&](std::string_view more) {
    Diagnostics diagnostics;
    const auto topology = Read(with(more), diagnostics);
    EXPECT_TRUE(topology.has_value()) << Format(diagnostics);
    return BuildCluster(*topology, 4, {}, diagnostics)->fabric()->sockets;
  };
  EXPECT_EQ(sockets_of(", transport: sockets"), topology::Sockets());
  const topology::Sockets said =
      sockets_of(", transport: sockets, sockets: {flow: 8 Gbps, per_channel: 4}");
  EXPECT_EQ(said.flow, Bandwidth::GigabytesPerSecond(1));
  EXPECT_EQ(said.per_channel, 4);
  // `sockets` is a mistake for a fabric with RDMA.
  EXPECT_EQ(Mistakes(with(", sockets: {flow: 8 Gbps}")).size(), 1U);
  EXPECT_EQ(Mistakes(with(", transport: sockets, sockets: {flow: 0 B/s}")).size(), 1U);
  EXPECT_EQ(Mistakes(with(", transport: sockets, sockets: {per_channel: 0}")).size(), 1U);
}

TEST(NodeTopology, ReportsAllMistakesAtOnce) {
  EXPECT_EQ(Mistakes("name: mine\n"
                     "node:\n"
                     "  gpu: h1000\n"
                     "  devices: {gpu: 2, pcie_switch: 1, nics: 1}\n"
                     "  links:\n"
                     "    - {kind: pci, from: gpu, to: pcie_switch, latency: 1 ns, bandwidth: 1}\n"
                     "fabric: {kind: fat-tree, link: {latency: 1 us}, nodes_per_leaf: 0}\n"),
            (std::vector<std::string>{"3:8 topology.unknown-gpu", "4:37 input.unknown-key",
                                      "6:14 input.unknown-word", "6:73 input.bad-quantity",
                                      "7:32 input.missing-key", "7:65 input.out-of-range",
                                      "7:9 input.missing-key", "7:9 input.missing-key"}));
}

TEST(NodeTopology, PlacesFaultsWhereTheyStand) {
  // A device set that names missing devices.
  EXPECT_EQ(Mistakes(With(kServer, "from: gpu", "from: \"gpu[0..2]\"")),
            (std::vector<std::string>{"6:26 topology.bad-devices"}));
  EXPECT_EQ(Mistakes(With(kServer, "to: pcie_switch", "to: nvswitch")),
            (std::vector<std::string>{"6:35 topology.bad-devices"}));
  // A graph in two parts: the NIC is not linked.
  EXPECT_EQ(
      Mistakes(With(kServer, "from: nic, to: pcie_switch", "from: \"gpu[0]\", to: \"gpu[1]\"")),
      (std::vector<std::string>{"6:5 topology.impossible"}));
  // A device linked to itself.
  EXPECT_EQ(Mistakes(With(kServer, "from: nic, to: pcie_switch", "from: nic, to: nic")),
            (std::vector<std::string>{"7:7 topology.impossible"}));
  // A latency that no link has.
  EXPECT_EQ(Mistakes(With(kServer, "latency: 100 ns", "latency: 5 s")),
            (std::vector<std::string>{"6:57 topology.impossible"}));
  // Three GPUs over two switches.
  EXPECT_EQ(Mistakes(With(kServer, "{gpu: 2, pcie_switch: 1", "{gpu: 3, pcie_switch: 2")),
            (std::vector<std::string>{"6:7 topology.impossible"}));
}

TEST(NodeTopology, ManyNodesNeedNics) {
  Diagnostics diagnostics;
  std::string text = With(kServer, ", nic: 1", "");
  text.erase(text.find("    - {kind: pcie, from: nic"));
  text += "fabric: {kind: one-switch, link: {latency: 1 us, bandwidth: 80 Gbps}}\n";
  const auto server = Read(text, diagnostics);
  ASSERT_TRUE(server.has_value()) << Format(diagnostics);
  EXPECT_TRUE(BuildCluster(*server, 1, {}, diagnostics).has_value());
  EXPECT_FALSE(BuildCluster(*server, 2, {"s.yaml", 4, 3}, diagnostics).has_value());
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_NE(diagnostics[0].message.find("the node has no NIC"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::scenario
