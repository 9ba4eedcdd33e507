#include "src/topology/rings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::topology {
namespace {

std::vector<int> FirstGpus(int count) {
  std::vector<int> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(i);
  return gpus;
}

TEST(BuildNodeRings, NoneForOneGpu) {
  EXPECT_TRUE(BuildNodeRings(NodeRoutes(PcieNode()), {2}).cycles.empty());
}

// Through the NVSwitches, a single ring uses all 18 links of a GPU.
TEST(BuildNodeRings, OneRingFillsASwitchedNode) {
  const NodeRoutes routes(SwitchedNode());
  for (int gpus : {2, 3, 8}) {
    const NodeRings rings = BuildNodeRings(routes, FirstGpus(gpus));
    ASSERT_EQ(rings.cycles.size(), 1u);
    EXPECT_EQ(rings.cycles[0].gpus, FirstGpus(gpus));
    EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(450));
    EXPECT_EQ(rings.latency, Nanoseconds(500));
    EXPECT_TRUE(rings.nvlink);
  }
}

// 0 -> 1 -> 2 -> 3 -> 0: the CPUs' link carries one hop each way at 16 GB/s.
TEST(BuildNodeRings, ThePcieRingIsAsNarrowAsTheCpuLink) {
  const NodeRoutes routes(PcieNode());
  const NodeRings rings = BuildNodeRings(routes, FirstGpus(4));
  EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(16));
  EXPECT_EQ(rings.latency, Nanoseconds(1100));
  EXPECT_FALSE(rings.nvlink);
  // Behind one switch nothing but the GPUs' own links counts.
  const NodeRings near = BuildNodeRings(routes, {2, 3});
  EXPECT_EQ(near.bandwidth, Bandwidth::GigabytesPerSecond(32));
  EXPECT_EQ(near.latency, Nanoseconds(400));
}

// Each pair of rings has links of its own, so each ring carries a link's 64 GB/s. A full mesh of 8
// GPUs has 7 links per GPU: three rings in both directions, and one link left over. With 5 GPUs,
// the 4 links make two such pairs; 3 GPUs make one; 2 GPUs make one ring over their single link.
TEST(BuildNodeRings, LaysSeveralRingsOverAMesh) {
  const struct {
    int gpus;
    std::size_t rings;
  } kCases[] = {{2, 1}, {3, 2}, {5, 4}, {8, 6}};
  for (const auto& test : kCases) {
    const NodeRings rings = BuildNodeRings(NodeRoutes(MeshNode(test.gpus)), FirstGpus(test.gpus));
    EXPECT_EQ(rings.cycles.size(), test.rings) << test.gpus;
    EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(64 * static_cast<int>(test.rings)));
    std::set<std::pair<int, int>> used;
    for (const Cycle& cycle : rings.cycles) {
      std::vector<int> sorted = cycle.gpus;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, FirstGpus(test.gpus)) << "a ring visits every GPU once";
      for (std::size_t i = 0; i < cycle.gpus.size(); ++i) {
        EXPECT_TRUE(used.emplace(cycle.gpus[i], cycle.gpus[(i + 1) % cycle.gpus.size()]).second)
            << "a link carries one ring";
      }
    }
  }
}

// Six links of 25 GB/s a GPU in a cube mesh make six rings, as NCCL finds on a DGX-1: 150 GB/s.
TEST(BuildNodeRings, UsesAllLinksOfACubeMesh) {
  const NodeRings rings = BuildNodeRings(NodeRoutes(CubeMeshNode()), FirstGpus(8));
  EXPECT_EQ(rings.cycles.size(), 6u);
  EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(150));
  EXPECT_TRUE(rings.nvlink);
}

// GPU 4 has two NVLinks to GPU 0 and none to the other three. A ring uses one of the two directly
// and the other through GPU 0 to a third GPU, in both directions: two rings of 25 GB/s, one
// reversed. NCCL also closes rings through an intermediate GPU.
TEST(BuildNodeRings, AnotherGpuRelaysWhereNoRingCloses) {
  const NodeRings rings = BuildNodeRings(NodeRoutes(CubeMeshNode()), FirstGpus(5));
  EXPECT_EQ(rings.cycles.size(), 2u);
  EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(50));
  EXPECT_TRUE(rings.nvlink);
}

// GPUs 1 and 4 of the cube mesh share no NVLink. They meet over GPU-switch-CPU-CPU-switch-GPU at
// the CPUs' 9 GB/s.
TEST(BuildNodeRings, FallsBackToPcieBetweenUnlinkedGpus) {
  const NodeRings rings = BuildNodeRings(NodeRoutes(CubeMeshNode()), {1, 4});
  EXPECT_EQ(rings.bandwidth, Bandwidth::GigabytesPerSecond(9));
  EXPECT_FALSE(rings.nvlink);
  EXPECT_EQ(rings.latency, Nanoseconds(5 * 400));
}

// Two GPUs and two NICs on every PCIe switch: a channel leaves from the GPU that owns its NIC and
// enters by the other one, so every PCIe link carries one channel each way. The 8 NICs' ports
// (50 GB/s) are narrower than PCIe (64 GB/s).
TEST(BuildNodeTraffic, UsesEveryRailOnce) {
  const NodeRoutes routes(SwitchedNode());
  const std::vector<int> gpus = FirstGpus(8);
  EXPECT_EQ(RailsOf(routes, gpus), FirstGpus(8));
  const NodeTraffic traffic = BuildNodeTraffic(routes, gpus, BuildNodeRings(routes, gpus),
                                               Bandwidth::GigabytesPerSecond(50), 8);
  EXPECT_EQ(traffic.rails, FirstGpus(8));
  EXPECT_DOUBLE_EQ(traffic.inter_rate, 50e9);
  // 7 of the 8 channels leave a GPU over NVLink.
  EXPECT_DOUBLE_EQ(traffic.intra_rate, 450e9 / 7);
  for (int c = 0; c < 8; ++c) {
    EXPECT_EQ(traffic.exit_latency[static_cast<std::size_t>(c)], Nanoseconds(300));
    EXPECT_EQ(traffic.entry_latency[static_cast<std::size_t>(c)], Nanoseconds(300));
  }
}

// One GPU of each pair: GPU 2 has no neighbour at its NIC, so the ring's last GPU reaches the NIC
// through GPU 2's memory: 500 ns of NVLink and 300 ns of PCIe.
TEST(BuildNodeTraffic, TakesTheDetourOverNvLink) {
  const NodeRoutes routes(SwitchedNode());
  const std::vector<int> gpus = {0, 2, 4};
  const NodeTraffic traffic = BuildNodeTraffic(routes, gpus, BuildNodeRings(routes, gpus),
                                               Bandwidth::GigabytesPerSecond(50), 3);
  EXPECT_EQ(traffic.rails, (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(traffic.exit_latency[1], Nanoseconds(800));
  EXPECT_EQ(traffic.entry_latency[1], Nanoseconds(300));
  // Each GPU sends all 3 channels over its NVLinks, as ring neighbour or on the detour.
  EXPECT_DOUBLE_EQ(traffic.intra_rate, 450e9 / 3);
  EXPECT_DOUBLE_EQ(traffic.inter_rate, 50e9);
}

// The NIC is on switch 0. The channel enters by GPU 1 and leaves from GPU 0: 1 -> 2 -> 3 -> 0. It
// uses the NIC's PCIe link once in each direction. The CPUs' link is used by the ring, once per
// direction.
TEST(BuildNodeTraffic, OneNicServesAPcieNode) {
  const NodeRoutes routes(PcieNode());
  const std::vector<int> gpus = FirstGpus(4);
  const NodeTraffic traffic = BuildNodeTraffic(routes, gpus, BuildNodeRings(routes, gpus),
                                               Bandwidth::GigabytesPerSecond(25), 1);
  EXPECT_EQ(traffic.exit_latency[0], Nanoseconds(400));
  EXPECT_EQ(traffic.entry_latency[0], Nanoseconds(400));
  EXPECT_DOUBLE_EQ(traffic.inter_rate, 25e9);
  EXPECT_DOUBLE_EQ(traffic.intra_rate, 16e9);
}

// A lone GPU 3 reaches the NIC across both CPUs: 16 GB/s.
TEST(BuildNodeTraffic, AFarGpuIsBoundByItsWay) {
  const NodeRoutes routes(PcieNode());
  const NodeTraffic traffic = BuildNodeTraffic(routes, {3}, BuildNodeRings(routes, {3}),
                                               Bandwidth::GigabytesPerSecond(25), 1);
  EXPECT_DOUBLE_EQ(traffic.inter_rate, 16e9);
  EXPECT_EQ(traffic.exit_latency[0], Nanoseconds(1100));
}

}  // namespace
}  // namespace stepcast::topology
