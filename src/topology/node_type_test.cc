#include "src/topology/node_type.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::topology {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

Pairs Linked(Join join, DeviceSet from, DeviceSet to) {
  LinkRule rule;
  rule.join = join;
  rule.from = std::move(from);
  rule.to = std::move(to);
  return PairsOf(rule);
}

TEST(PairsOf, DealsTheLargerSetOutInOrder) {
  const DeviceSet gpus = {DeviceKind::kGpu, {0, 1, 2, 3}};
  const DeviceSet switches = {DeviceKind::kPcieSwitch, {0, 1}};
  EXPECT_EQ(Linked(Join::kInOrder, gpus, switches), (Pairs{{0, 0}, {1, 0}, {2, 1}, {3, 1}}));
  EXPECT_EQ(Linked(Join::kInOrder, switches, gpus), (Pairs{{0, 0}, {0, 1}, {1, 2}, {1, 3}}));
  EXPECT_EQ(Linked(Join::kInOrder, gpus, {DeviceKind::kNic, {3, 2, 1, 0}}),
            (Pairs{{0, 3}, {1, 2}, {2, 1}, {3, 0}}));
}

TEST(PairsOf, LinksEachWithEach) {
  EXPECT_EQ(Linked(Join::kAllToAll, {DeviceKind::kGpu, {0, 1}}, {DeviceKind::kNvSwitch, {2, 3}}),
            (Pairs{{0, 2}, {0, 3}, {1, 2}, {1, 3}}));
}

TEST(PairsOf, LinksEveryPairOfOneSetOnce) {
  const DeviceSet gpus = {DeviceKind::kGpu, {0, 1, 2}};
  EXPECT_EQ(Linked(Join::kAllToAll, gpus, gpus), (Pairs{{0, 1}, {0, 2}, {1, 2}}));
  // Sets that overlap: 1 and 2 are on both sides, their pair still comes once.
  EXPECT_EQ(Linked(Join::kAllToAll, {DeviceKind::kGpu, {0, 1, 2}}, {DeviceKind::kGpu, {1, 2}}),
            (Pairs{{0, 1}, {0, 2}, {1, 2}}));
}

// A leaf with 2 nodes of 8 NICs at 50 GB/s has 800 GB/s below it. At 4 to 1 it has 200 GB/s above,
// or 25 GB/s on each of 8 uplinks.
TEST(SetOversubscription, DividesWhatIsBelowALeaf) {
  Fabric fabric;
  fabric.kind = FabricKind::kFatTree;
  fabric.link.bandwidth = Bandwidth::GigabytesPerSecond(50);
  fabric.nodes_per_unit = 2;
  fabric.spines = 8;
  SetOversubscription(fabric, 8, 4);
  EXPECT_EQ(fabric.uplink.bandwidth, Bandwidth::GigabytesPerSecond(25));
  EXPECT_EQ(fabric.oversubscription, 4);
}

}  // namespace
}  // namespace stepcast::topology
