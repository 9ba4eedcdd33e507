#include "src/topology/routes.h"

#include <map>

#include "gtest/gtest.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

// Kind and fraction of every link crossed, by the devices it joins.
std::map<std::pair<std::string, std::string>, double> Crossed(const NodeType& node,
                                                              const Route& route) {
  const Graph graph = BuildNodeGraph(node);
  std::map<std::pair<std::string, std::string>, double> crossed;
  for (const std::vector<Link>& leaving : graph.links) {
    for (const Link& link : leaving) {
      for (const Share& share : route.shares) {
        if (share.link != link.id) continue;
        crossed[{Name(graph.devices[link.from]), Name(graph.devices[link.to])}] += share.share;
      }
    }
  }
  return crossed;
}

// The PCIe switch between GPUs 0 and 1 is nearer (300 ns) than the NVSwitches (500 ns).
TEST(NodeRoutes, PrefersNvLinkAndSpreadsOverItsPlanes) {
  const NodeType node = SwitchedNode();
  const NodeRoutes routes(node);
  const Route route = routes.BetweenGpus(0, 1);
  EXPECT_TRUE(route.nvlink);
  EXPECT_EQ(route.distance.latency, Nanoseconds(500));
  EXPECT_EQ(route.distance.hops, 2);
  const auto crossed = Crossed(node, route);
  ASSERT_EQ(crossed.size(), 8u);
  // 125 + 100 + 100 + 125 GB/s: each plane carries its part of 450.
  EXPECT_DOUBLE_EQ(crossed.at({"node0/gpu0", "node0/nvswitch0"}), 125.0 / 450);
  EXPECT_DOUBLE_EQ(crossed.at({"node0/gpu0", "node0/nvswitch1"}), 100.0 / 450);
  EXPECT_DOUBLE_EQ(crossed.at({"node0/nvswitch3", "node0/gpu1"}), 125.0 / 450);
}

TEST(NodeRoutes, CrossesTheCpusWhereNothingElseLeads) {
  const NodeType node = PcieNode();
  const NodeRoutes routes(node);
  const Route route = routes.BetweenGpus(1, 2);
  EXPECT_FALSE(route.nvlink);
  // GPU, switch, CPU, CPU, switch, GPU: 200 + 200 + 300 + 200 + 200 ns.
  EXPECT_EQ(route.distance.latency, Nanoseconds(1100));
  EXPECT_EQ(route.distance.hops, 5);
  const auto crossed = Crossed(node, route);
  EXPECT_EQ(crossed.size(), 5u);
  EXPECT_EQ(crossed.at({"node0/cpu0", "node0/cpu1"}), 1);
  EXPECT_EQ(crossed.count({"node0/cpu1", "node0/cpu0"}), 0u);
}

TEST(NodeRoutes, TheWayFromANicIsTheWayToItReversed) {
  const NodeType node = PcieNode();
  const NodeRoutes routes(node);
  const auto crossed = Crossed(node, routes.FromNic(0, 3));
  EXPECT_EQ(crossed.at({"node0/nic0", "node0/pcie_switch0"}), 1);
  EXPECT_EQ(crossed.at({"node0/cpu0", "node0/cpu1"}), 1);
  EXPECT_EQ(crossed.at({"node0/pcie_switch1", "node0/gpu3"}), 1);
  EXPECT_EQ(routes.DistanceToNic(3, 0).latency, Nanoseconds(1100));
}

// Two equally short routes of unequal width: GPU 0 to GPU 1 over two switches, 30 and 10 GB/s.
TEST(NodeRoutes, DividesByBandwidthWithinALatencyTie) {
  NodeType node;
  node.devices = {2, 0, 2, 0, 0};
  for (int s : {0, 1}) {
    node.links.push_back(Rule(LinkKind::kPcie, Devices(DeviceKind::kGpu, 0, 2),
                              {DeviceKind::kPcieSwitch, {s}}, Join::kInOrder, 1, 100,
                              s == 0 ? 30 : 10));
  }
  const auto crossed = Crossed(node, NodeRoutes(node).BetweenGpus(0, 1));
  EXPECT_DOUBLE_EQ(crossed.at({"node0/gpu0", "node0/pcie_switch0"}), 0.75);
  EXPECT_DOUBLE_EQ(crossed.at({"node0/gpu0", "node0/pcie_switch1"}), 0.25);
}

TEST(NodeRoutes, GpusDoNotForward) {
  NodeType node;
  node.devices = {3, 0, 0, 0, 0};
  node.links = {Rule(LinkKind::kNvLink, {DeviceKind::kGpu, {0, 1}}, {DeviceKind::kGpu, {1, 2}},
                     Join::kInOrder, 1, 100, 50)};
  const NodeRoutes routes(node);
  EXPECT_TRUE(routes.Connected(0, 1));
  EXPECT_TRUE(routes.Connected(1, 2));
  EXPECT_FALSE(routes.Connected(0, 2));
}

TEST(NodeRoutes, DealsSharedNicsOut) {
  // A PCIe switch with two GPUs and two NICs: one each.
  const NodeRoutes pairs(SwitchedNode());
  EXPECT_EQ(pairs.NicsOf(0), (std::vector<int>{0}));
  EXPECT_EQ(pairs.NicsOf(1), (std::vector<int>{1}));
  EXPECT_EQ(pairs.NicsOf(7), (std::vector<int>{7}));
  // One NIC for all four GPUs, the far ones too.
  const NodeRoutes one(PcieNode());
  for (int gpu = 0; gpu < 4; ++gpu) EXPECT_EQ(one.NicsOf(gpu), (std::vector<int>{0}));
  // Four NICs beside one GPU: all of them.
  NodeType wide;
  wide.devices = {1, 0, 1, 0, 4};
  wide.links = {Rule(LinkKind::kPcie, {DeviceKind::kGpu, {0}}, {DeviceKind::kPcieSwitch, {0}},
                     Join::kInOrder, 1, 100, 50),
                Rule(LinkKind::kPcie, Devices(DeviceKind::kNic, 0, 4),
                     {DeviceKind::kPcieSwitch, {0}}, Join::kInOrder, 1, 100, 50)};
  EXPECT_EQ(NodeRoutes(wide).NicsOf(0), (std::vector<int>{0, 1, 2, 3}));
}

// For any route, the fractions that leave the source and that reach the target sum to 1, and every
// device in between forwards what it receives.
TEST(NodeRoutes, SharesFlowWithoutLoss) {
  for (const NodeType& node : {SwitchedNode(), PcieNode(), CubeMeshNode(), MeshNode(5)}) {
    const Graph graph = BuildNodeGraph(node);
    const NodeRoutes routes(node);
    for (int from = 0; from < routes.gpus(); ++from) {
      for (int to = 0; to < routes.gpus(); ++to) {
        if (from == to) continue;
        std::vector<double> surplus(graph.devices.size());
        const Route route = routes.BetweenGpus(from, to);
        for (const std::vector<Link>& leaving : graph.links) {
          for (const Link& link : leaving) {
            for (const Share& share : route.shares) {
              if (share.link != link.id) continue;
              surplus[link.from] -= share.share;
              surplus[link.to] += share.share;
            }
          }
        }
        for (std::size_t v = 0; v < surplus.size(); ++v) {
          const double expected = v == static_cast<Vertex>(from) ? -1
                                  : v == static_cast<Vertex>(to) ? 1
                                                                 : 0;
          EXPECT_NEAR(surplus[v], expected, 1e-12) << node.name << ' ' << from << ' ' << to;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::topology
