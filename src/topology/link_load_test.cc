#include "src/topology/link_load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/topology/node_type.h"

namespace stepcast::topology {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;

// Four GPUs on one NVSwitch, each with a NIC on PCIe of its own.
NodeType FourGpus() {
  NodeType node;
  node.name = "four";
  node.gpu = "h100-sxm";
  node.gpu_memory = Bytes(std::int64_t{80} << 30);
  node.devices = {4, 1, 4, 0, 4};
  const auto rule = [](LinkKind kind, DeviceKind from, DeviceKind to, std::vector<int> targets,
                       std::int64_t gigabytes) {
    LinkRule result;
    result.kind = kind;
    result.from = {from, {0, 1, 2, 3}};
    result.to = {to, std::move(targets)};
    result.link = {Nanoseconds(200), Bandwidth::GigabytesPerSecond(gigabytes)};
    return result;
  };
  node.links = {rule(LinkKind::kNvLink, DeviceKind::kGpu, DeviceKind::kNvSwitch, {0}, 400),
                rule(LinkKind::kPcie, DeviceKind::kGpu, DeviceKind::kPcieSwitch, {0, 1, 2, 3}, 64),
                rule(LinkKind::kPcie, DeviceKind::kNic, DeviceKind::kPcieSwitch, {0, 1, 2, 3}, 64)};
  return node;
}

Fabric Switch() {
  Fabric fabric;
  fabric.link = {Nanoseconds(600), Bandwidth::GigabytesPerSecond(50)};
  return fabric;
}

double BytesOf(const std::vector<LinkLoad>& loads, const std::string& from, const std::string& to) {
  for (const LinkLoad& load : loads) {
    if (load.from == from && load.to == to) return load.bytes;
  }
  ADD_FAILURE() << "no link from " << from << " to " << to;
  return -1;
}

// One node, all-reduce of 8 MB over 4 ranks: 2 x 3/4 x 8 MB = 12 MB into and out of each GPU.
TEST(LinkLoad, InsideANodeEveryGpuSendsAndReceivesTheRingsPart) {
  const Cluster cluster(FourGpus(), std::nullopt, 1);
  const auto loads = RingLoads(cluster, CollectiveKind::kAllReduce, Bytes(8 * kMegabyte));
  ASSERT_TRUE(loads.has_value());
  for (const char* gpu : {"node0/gpu0", "node0/gpu1", "node0/gpu2", "node0/gpu3"}) {
    EXPECT_DOUBLE_EQ(BytesOf(*loads, gpu, "node0/nvswitch0"), 12 * kMegabyte);
    EXPECT_DOUBLE_EQ(BytesOf(*loads, "node0/nvswitch0", gpu), 12 * kMegabyte);
  }
  EXPECT_DOUBLE_EQ(BytesOf(*loads, "node0/gpu0", "node0/pcie_switch0"), 0);
}

// Two nodes, all-gather of 16 MB over 8 ranks: a hop carries 7/8 x 16 = 14 MB, in four channels of
// 3.5 MB, each through its own NIC. Over all channels, three of the four hops of the node's ring
// use NVLink and the fourth uses the network.
TEST(LinkLoad, BetweenNodesEachNicCarriesItsChannel) {
  const Cluster cluster(FourGpus(), Switch(), 2);
  const auto loads = RingLoads(cluster, CollectiveKind::kAllGather, Bytes(16 * kMegabyte));
  ASSERT_TRUE(loads.has_value());
  double into_switch = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string nic = "node0/nic" + std::to_string(i);
    EXPECT_DOUBLE_EQ(BytesOf(*loads, nic, "leaf0"), 3.5 * kMegabyte);
    EXPECT_DOUBLE_EQ(BytesOf(*loads, "leaf0", nic), 3.5 * kMegabyte);
    into_switch += BytesOf(*loads, "node0/gpu" + std::to_string(i), "node0/nvswitch0");
  }
  // Three hops of 14 MB, and the last GPU of each channel's route to the NIC of another (PXN).
  EXPECT_DOUBLE_EQ(into_switch, 4 * 14.0 * kMegabyte);
}

// Two units of one node each, two spines: what leaves the node climbs, half to each spine.
TEST(LinkLoad, WhatLeavesALeafIsSpreadOverTheSpines) {
  Fabric fabric = Switch();
  fabric.kind = FabricKind::kFatTree;
  fabric.nodes_per_unit = 1;
  fabric.spines = 2;
  SetOversubscription(fabric, 4, 1);
  const Cluster cluster(FourGpus(), fabric, 2);
  const auto loads = RingLoads(cluster, CollectiveKind::kAllGather, Bytes(16 * kMegabyte));
  ASSERT_TRUE(loads.has_value());
  EXPECT_DOUBLE_EQ(BytesOf(*loads, "leaf0", "spine0"), 7 * kMegabyte);
  EXPECT_DOUBLE_EQ(BytesOf(*loads, "spine1", "leaf0"), 7 * kMegabyte);
}

TEST(LinkLoad, AFlatClustersDeviceSendsAndReceives) {
  FlatCluster flat;
  flat.devices = 4;
  flat.memory = Bytes(1 << 30);
  flat.link = LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)};
  const auto loads = RingLoads(Cluster(flat), CollectiveKind::kBroadcast, Bytes(25 * kMegabyte));
  ASSERT_TRUE(loads.has_value());
  ASSERT_EQ(loads->size(), 2u);
  EXPECT_DOUBLE_EQ((*loads)[0].bytes, 25 * kMegabyte);
  EXPECT_DOUBLE_EQ((*loads)[0].seconds(), 1e-3);  // 25 MB at 25 GB/s
}

TEST(LinkLoad, WithoutLinksOrRanksThereIsNothingToSay) {
  FlatCluster flat;
  flat.devices = 4;
  flat.memory = Bytes(1 << 30);
  EXPECT_FALSE(RingLoads(Cluster(flat), CollectiveKind::kAllReduce, Bytes(1)).has_value());
  flat.devices = 1;
  flat.link = LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)};
  EXPECT_FALSE(RingLoads(Cluster(flat), CollectiveKind::kAllReduce, Bytes(1)).has_value());
}

// All ways in which `connections` of one leaf can choose among `uplinks`.
double ByEnumeration(int connections, int uplinks, double part) {
  const auto ways = static_cast<std::int64_t>(std::llround(std::pow(uplinks, connections)));
  double sum = 0;
  for (std::int64_t way = 0; way < ways; ++way) {
    std::vector<int> met(static_cast<std::size_t>(uplinks));
    std::int64_t rest = way;
    for (int c = 0; c < connections; ++c, rest /= uplinks) {
      ++met[static_cast<std::size_t>(rest % uplinks)];
    }
    sum += std::max(1.0, part * *std::max_element(met.begin(), met.end()));
  }
  return sum / static_cast<double>(ways);
}

double OfOneLeaf(std::int64_t connections, std::int64_t uplinks, double part) {
  const std::array leaves = {HashedLeaves{.leaves = 1, .connections = connections}};
  return ExpectedSlowdown(leaves, uplinks, part);
}

TEST(HashCollisions, OneConnectionMeetsNoOther) { EXPECT_EQ(OfOneLeaf(1, 8, 1), 1); }

TEST(HashCollisions, OneUplinkCarriesAll) { EXPECT_EQ(OfOneLeaf(6, 1, 0.5), 3); }

// Four of four: 1, 2, 3 or 4 meet in 24, 180, 48 and 4 of 256 ways: 544 / 256 = 2.125.
TEST(HashCollisions, FourOverFourUplinks) {
  EXPECT_NEAR(ByEnumeration(4, 4, 1), 2.125, 1e-12);
  EXPECT_NEAR(OfOneLeaf(4, 4, 1), 2.125, 1e-9);
}

TEST(HashCollisions, AsEnumerated) {
  for (const auto& [connections, uplinks] :
       {std::pair(2, 8), std::pair(5, 4), std::pair(6, 6), std::pair(8, 4), std::pair(3, 32)}) {
    for (const double part : {0.5, 1.0}) {
      const double exact = ByEnumeration(connections, uplinks, part);
      EXPECT_NEAR(OfOneLeaf(connections, uplinks, part), exact, 1e-9)
          << connections << " over " << uplinks;
    }
  }
}

// More leaves, more connections or wider connections never make a transfer faster. The slowdown
// lies between that of an even spread and that of all connections on one uplink.
RC_GTEST_PROP(HashCollisions, Laws, ()) {
  const std::int64_t connections = *rc::gen::inRange<std::int64_t>(1, 300);
  const std::int64_t uplinks = *rc::gen::inRange<std::int64_t>(1, 65);
  const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, 500);
  const double part = *rc::gen::inRange(1, 40) / 20.0;
  const auto of = [&](std::int64_t leaves, std::int64_t of_each, double each) {
    const std::array some = {HashedLeaves{.leaves = leaves, .connections = of_each}};
    return ExpectedSlowdown(some, uplinks, each);
  };
  const double own = of(count, connections, part);
  const double even = static_cast<double>((connections + uplinks - 1) / uplinks) * part;
  RC_ASSERT(own >= std::max(1.0, even) - 1e-12);
  RC_ASSERT(own <= std::max(1.0, static_cast<double>(connections) * part) + 1e-9);
  RC_ASSERT(of(count + 1, connections, part) >= 0.98 * own);
  RC_ASSERT(of(count, connections + 1, part) >= 0.98 * own);
  RC_ASSERT(of(count, connections, part * 1.1) >= 0.98 * own);
}

}  // namespace

}  // namespace stepcast::topology
