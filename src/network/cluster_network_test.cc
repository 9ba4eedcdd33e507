#include "src/network/cluster_network.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

#include "gtest/gtest.h"
#include "src/network/analytic.h"
#include "src/network/traffic.h"
#include "tests/examples/sample_lists.h"
#include "tests/examples/sample_nodes.h"

namespace stepcast::network {
namespace {

using collective::MakeSample;
using topology::Cluster;

std::vector<int> Ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The bandwidth of the slowest connection of a ring over all ranks in ascending order, all channels
// together.
double RingGigabytes(const Cluster& cluster, int channels) {
  const ClusterNetwork built = NetworkOf(cluster).value();
  const int ranks = cluster.devices();
  const auto ring = MakeSample({"ring", CollectiveKind::kAllReduce},
                               {.size = GiB(1), .ranks_per_node = ranks, .channels = channels});
  const Traffic traffic = Traffic::Make(*ring, built.network, Ranks(ranks)).value();
  double slowest = 1e9;
  for (const Connection& connection : traffic.connections()) {
    slowest = std::min(slowest, connection.rate.gigabytes_per_second());
  }
  return slowest * channels;
}

// 18 NVLinks of 25 GB/s over four planes.
TEST(ClusterNetworkTest, ARingUsesAllPlanesOfTheNvSwitches) {
  const Cluster cluster(topology::SwitchedNode(), std::nullopt, 1);
  EXPECT_NEAR(RingGigabytes(cluster, 1), 450, 1e-3);
  EXPECT_NEAR(RingGigabytes(cluster, 4), 450, 1e-3);
}

// Rank 7 of a node leaves over the two NICs of its PCIe switch, 50 GB/s each, limited by its own 64
// GB/s to that switch.
TEST(ClusterNetworkTest, ARingAcrossNodesIsAsFastAsItsWayOut) {
  const Cluster cluster(topology::SwitchedNode(), topology::OneSwitch(), 2);
  EXPECT_NEAR(RingGigabytes(cluster, 1), 64, 1e-3);
}

TEST(ClusterNetworkTest, AFlatClusterCostsTheTextbooksRing) {
  topology::FlatCluster flat;
  flat.devices = 8;
  flat.link = topology::LinkSpec{Microseconds(2), Bandwidth::GigabytesPerSecond(10)};
  const ClusterNetwork built = NetworkOf(Cluster(flat)).value();
  const auto ring = MakeSample({"ring", CollectiveKind::kAllReduce},
                               {.size = Bytes(1'000'000), .ranks_per_node = 8});
  const Traffic traffic = Traffic::Make(*ring, built.network, Ranks(8)).value();
  EXPECT_EQ(PriceAnalytically(traffic).total, 14 * Nanoseconds(14'500));
}

TEST(ClusterNetworkTest, AFlatClusterNeedsALink) {
  topology::FlatCluster flat;
  flat.devices = 2;
  const auto built = NetworkOf(Cluster(flat));
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(built.error()[0].message, "the flat cluster has no link");
}

// NVLS inside the switches: every GPU sends 9/8 of the buffer into 450 GB/s.
TEST(ClusterNetworkTest, NvSwitchesReduce) {
  const Cluster cluster(topology::SwitchedNode(), std::nullopt, 1);
  const ClusterNetwork built = NetworkOf(cluster).value();
  ASSERT_EQ(built.node_switches.size(), 1U);
  EXPECT_EQ(built.fabric_switch, -1);
  const auto nvls =
      MakeSample({"nvls", CollectiveKind::kAllReduce},
                 {.size = Bytes(8'000'000'000), .ranks_per_node = 8, .channels = 4, .loops = 4000});
  std::vector<int> places = Ranks(8);
  places.push_back(built.node_switches[0]);
  const Traffic traffic = Traffic::Make(*nvls, built.network, places).value();
  EXPECT_NEAR(PriceAnalytically(traffic).total.seconds(), 9e9 / 450e9, 9e9 / 450e9 * 0.001);
}

TEST(ClusterNetworkTest, GpusMeetInTheFabricsSwitches) {
  const Cluster cluster(topology::SwitchedNode(), topology::Rails(), 4);
  const ClusterNetwork built = NetworkOf(cluster).value();
  EXPECT_EQ(built.node_switches.size(), 4U);
  Network::Router router(built.network);
  EXPECT_TRUE(router.Find(0, built.fabric_switch).has_value());
  // From one rail to another, in another unit: PCIe, NIC, leaf, spine, leaf, NIC, PCIe.
  EXPECT_GT(router.Find(0, 31)->latency, router.Find(0, 8)->latency);
}

// NCCL sends by the sender's card and receives by the receiver's (ncclTopoGetNetDev). The path
// through the processors to the other's rail may be shorter, but its 22 GB/s would be shared by all
// of a node's GPUs.
TEST(ClusterNetworkTest, MessagesToOtherNodesLeaveAndArriveByTheNearestCards) {
  topology::Fabric fabric = topology::Rails();
  fabric.uplink.latency = Microseconds(5);
  const ClusterNetwork built = NetworkOf(Cluster(topology::SwitchedNode(), fabric, 2)).value();
  Network::Router router(built.network);
  const Path path = router.Find(4, 8).value();
  double cards = 0;
  for (const Share& share : path.shares) {
    const std::string name = built.network.LinkName(share.link);
    EXPECT_EQ(name.find("cpu"), std::string::npos) << name;
    const bool out =
        name.starts_with("node0/nic4 to leaf") || name.starts_with("node0/nic5 to leaf");
    const bool in = name.ends_with(" to node1/nic0") || name.ends_with(" to node1/nic1");
    if (out || in) cards += share.part;
  }
  EXPECT_NEAR(cards, 2, 1e-12);  // the whole of it out, and the whole of it in
  // Within a node the processors are the only way without NVLink, whatever hangs on the cards.
  const topology::NodeType pcie = topology::PcieNode();
  const ClusterNetwork without = NetworkOf(Cluster(pcie, topology::OneSwitch(), 2)).value();
  Network::Router inside(without.network);
  const Path across = inside.Find(0, 3).value();
  for (const Share& share : across.shares) {
    EXPECT_TRUE(without.network.IsInsideNode(share.link));
  }
}

// The spines on a route between two ranks, and the fraction of the transfer over each.
std::map<std::string, double> Spines(topology::Fabric fabric, int from, int to) {
  const ClusterNetwork built = NetworkOf(Cluster(topology::SwitchedNode(), fabric, 8)).value();
  Network::Router router(built.network);
  std::map<std::string, double> up, down;
  const Path path = router.Find(from, to).value();
  for (const Share& share : path.shares) {
    const std::string name = built.network.LinkName(share.link);
    const std::size_t end = name.find(" to ");
    if (name.starts_with("spine")) down[name.substr(0, end)] += share.part;
    if (name.find(" to spine") != std::string::npos) up[name.substr(end + 4)] += share.part;
  }
  EXPECT_EQ(up.size(), down.size());
  double whole = 0;
  for (const auto& [spine, part] : up) {
    EXPECT_NEAR(down[spine], part, 1e-12) << spine;
    whole += part;
  }
  EXPECT_NEAR(whole, up.empty() ? 0 : 1, 1e-12);
  return up;
}

TEST(ClusterNetworkTest, RoutingChoosesSpines) {
  topology::Fabric fabric = topology::FatTree(1);  // two nodes below a leaf, 4 spines
  EXPECT_EQ(Spines(fabric, 0, 16).size(), 4U);
  fabric.routing.choice = topology::RouteChoice::kStatic;
  EXPECT_EQ(Spines(fabric, 0, 16).size(), 1U);
  EXPECT_EQ(Spines(fabric, 0, 16), Spines(fabric, 9, 16));  // one for each destination
  EXPECT_TRUE(Spines(fabric, 0, 8).empty());                // below one leaf
  fabric.routing.choice = topology::RouteChoice::kEcmp;
  fabric.connections = 1;
  std::map<std::string, int> taken;
  for (int seed = 0; seed < 64; ++seed) {
    fabric.routing.seed = seed;
    const auto spines = Spines(fabric, 0, 16);
    EXPECT_EQ(spines.size(), 1U);
    EXPECT_EQ(spines, Spines(fabric, 0, 16));
    ++taken[spines.begin()->first];
  }
  // Each of 4 is taken by 16 of 64, with a standard deviation of 3.5.
  EXPECT_EQ(taken.size(), 4U);
  for (const auto& [spine, times] : taken) EXPECT_NEAR(times, 16, 12) << spine;
  fabric.connections = 3;
  for (int seed = 0; seed < 8; ++seed) {
    fabric.routing.seed = seed;
    EXPECT_LE(Spines(fabric, 0, 16).size(), 3U);
  }
}

}  // namespace
}  // namespace stepcast::network
