#include "src/topology/node_type.h"

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

constexpr std::array<int, kNodeDeviceKinds> kDevices = {8, 4, 0, 2, 8};

TEST(ParseDeviceSet, ReadsKindsIndicesAndRanges) {
  const struct {
    const char* text;
    DeviceKind kind;
    std::vector<int> indices;
  } kCases[] = {
      {"nvswitch", DeviceKind::kNvSwitch, {0, 1, 2, 3}},
      {"gpu[3]", DeviceKind::kGpu, {3}},
      {"gpu[0..2]", DeviceKind::kGpu, {0, 1, 2}},
      {" nic[0, 4..6 ,1] ", DeviceKind::kNic, {0, 4, 5, 6, 1}},
      {"cpu[1..1]", DeviceKind::kCpu, {1}},
  };
  for (const auto& test : kCases) {
    const auto set = ParseDeviceSet(test.text, kDevices);
    ASSERT_TRUE(set.has_value()) << test.text;
    EXPECT_EQ(set->kind, test.kind) << test.text;
    EXPECT_EQ(set->indices, test.indices) << test.text;
  }
}

TEST(ParseDeviceSet, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"gpus", "a node has no devices of this kind: 'gpus'"},
      {"leaf[0]", "a node has no devices of this kind: 'leaf'"},
      {"", "a node has no devices of this kind: ''"},
      {"pcie_switch", "the node has no pcie_switch: 'pcie_switch'"},
      {"gpu[8]", "the device does not exist: gpu8"},
      {"gpu[6..9]", "the device does not exist: gpu8"},
      {"gpu[0..999999999999]", "this is neither an index nor a range: '0..999999999999'"},
      {"gpu[0..2147483647]", "the device does not exist: gpu8"},
      {"gpu[3..1]", "a range must ascend: '3..1'"},
      {"gpu[1, 1]", "a device is listed twice: gpu1"},
      {"gpu[0..3, 2]", "a device is listed twice: gpu2"},
      {"gpu[01]", "this is neither an index nor a range: '01'"},
      {"gpu[-1]", "this is neither an index nor a range: '-1'"},
      {"gpu[]", "this is neither an index nor a range: ''"},
      {"gpu[1,]", "this is neither an index nor a range: ''"},
      {"gpu[1", "a ']' is missing: 'gpu[1'"},
      {"gpu[1]x", "a ']' is missing: 'gpu[1]x'"},
  };
  for (const auto& test : kCases) {
    const auto set = ParseDeviceSet(test.text, kDevices);
    ASSERT_FALSE(set.has_value()) << test.text;
    EXPECT_EQ(set.error().message, test.message);
  }
}

TEST(Format, ReadsBackToTheSameSet) {
  for (const char* text : {"gpu[0..7]", "nvswitch[0, 3]", "nic[5, 0..2]", "cpu[1]"}) {
    EXPECT_EQ(Format(*ParseDeviceSet(text, kDevices)), text);
  }
}

}  // namespace

}  // namespace stepcast::topology
