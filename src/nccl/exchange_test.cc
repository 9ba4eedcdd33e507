#include "src/nccl/exchange.h"

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/sample_communicators.h"

namespace stepcast::nccl {
namespace {

// One node of eight H100: a GPU sends 7/8 of 8 GiB into NVSwitch at 18 x 20.6 GB/s, in one batch:
// 8.4 + 3.4 us.
TEST(ExchangeModelTest, AllToAllInANodeFillsTheLinksIntoTheSwitch) {
  const ExchangeModel model(DgxH100(), 1, 24, Version::kV230);
  const ExchangeTime time = model.Price(Exchange::kAllToAll, GiB(8));
  EXPECT_NEAR(time.transfer, 7.0 / 8 * 8589934592 / 370'800, 0.5);
  EXPECT_NEAR(time.latency, 11.8, 1e-9);
  EXPECT_EQ(time.protocol, Protocol::kSimple);
  EXPECT_EQ(time.channels, 32);
  EXPECT_FALSE(time.through_rails);
}

// Two nodes of eight: a GPU sends 8/16 of S through its card of 48 GB/s (limited by its PCIe), and
// 14/16 of it over NVLink: 7/16 to its own node, 7/16 to the rails of the other.
TEST(ExchangeModelTest, AllToAllBetweenNodesFillsTheCards) {
  const ExchangeModel model(DgxH100(), 2, 16, Version::kV230);
  const ExchangeTime time = model.Price(Exchange::kAllToAll, GiB(1));
  EXPECT_NEAR(time.transfer, 0.5 * 1073741824 / 48'000, 0.5);
  EXPECT_TRUE(time.through_rails);
  // 7 x 16 parts to the node's own... channels per peer are 4: 15 peers x 4 parts on 16 channels
  // make one batch of at most 128. A hop: 14 us on the network, 3.4 on NVLink to the rail.
  EXPECT_NEAR(time.latency, 8.4 + 14 + 3.4, 1e-9);
}

// A scatter's root sends data for position p by card p, so all eight cards work: 1/16 S each,
// against 15/16 S over NVLink at 370.8. A gather's root receives everything by its own card: 8/16 S
// at 48.
TEST(ExchangeModelTest, RootsSendOverAllRailsAndReceiveOverOne) {
  const ExchangeModel model(DgxH100(), 2, 16, Version::kV230);
  const double size = 1073741824;
  // Data to place 0 leaves by the root's own NIC, without NVLink: 14/16.
  EXPECT_NEAR(model.Price(Exchange::kScatter, GiB(1)).transfer, 14.0 / 16 * size / 370'800, 0.5);
  EXPECT_NEAR(model.Price(Exchange::kGather, GiB(1)).transfer, 0.5 * size / 48'000, 0.5);
}

// A shift crosses the network in one of eight hops, by one card.
TEST(ExchangeModelTest, AShiftIsAsFastAsItsSlowestHop) {
  const ExchangeModel inside(DgxH100(), 1, 24, Version::kV230);
  const ExchangeModel across(DgxH100(), 2, 16, Version::kV230);
  EXPECT_NEAR(inside.Price(Exchange::kShift, GiB(1)).transfer, 1073741824 / 370'800.0, 0.5);
  EXPECT_NEAR(across.Price(Exchange::kShift, GiB(1)).transfer, 1073741824 / 48'000.0, 0.5);
}

// Two A100 of a node: 32 MiB use 16 channels, which the NVLinks can feed. On a communicator of
// eight GPUs a message has 32 / 8 = 4 channels of 20 GB/s each, and on one of two nodes 2.
TEST(ExchangeModelTest, AMessageHasTheChannelsOfItsCommunicator) {
  const ExchangeModel pair(DgxA100(2), 1, 24, Version::kV228);
  const ExchangeModel node(DgxA100(8), 1, 24, Version::kV228);
  const ExchangeModel nodes(DgxA100(8), 2, 16, Version::kV228);
  const double size = 32 * 1048576.0;
  const ExchangeTime alone = pair.Price(Exchange::kShift, MiB(32));
  EXPECT_EQ(alone.channels, 16);
  EXPECT_LT(alone.transfer, size / 200'000);
  const ExchangeTime among = pair.Price(Exchange::kShift, MiB(32), node.channels());
  EXPECT_EQ(among.channels, 4);
  EXPECT_NEAR(among.transfer, size / 80'000, 0.5);
  const ExchangeTime across = pair.Price(Exchange::kShift, MiB(32), nodes.channels());
  EXPECT_EQ(across.channels, 2);
  EXPECT_NEAR(across.transfer, size / 40'000, 0.5);
}

// Three V100 in a row, with two NVLinks of 20 GB/s between the first and second and one between the
// second and third. On a communicator of all three, the second relays from the first to the third,
// and the narrower hop counts. On a communicator of the two alone, there is only PCIe at a switch.
TEST(ExchangeModelTest, AnotherGpuOfTheCommunicatorRelays) {
  Node node = PcieNode(3, Cpu::kIntelBroadwell);
  for (Gpu& gpu : node.gpus) gpu.compute_capability = 70;
  const double pcie = node.gpus.front().slot.bandwidth;
  Node pair = node;
  pair.gpus.erase(pair.gpus.begin() + 1);
  node.nvlinks = {{.a = 0, .b = 1, .links = 2}, {.a = 1, .b = 2, .links = 1}};
  const ExchangeModel relayed(node, 1, 8, Version::kV230, 1, {0, 2});
  EXPECT_TRUE(relayed.nvlink());
  EXPECT_NEAR(relayed.Price(Exchange::kShift, GiB(1)).transfer, 1073741824 / 20'000.0, 0.5);
  const ExchangeModel alone(pair, 1, 8, Version::kV230);
  EXPECT_FALSE(alone.nvlink());
  EXPECT_GE(alone.Price(Exchange::kShift, GiB(1)).transfer, 1073741824 / (1000 * pcie));
}

// Without NVLink no message uses another GPU's card, and GPUs at one PCIe root split packets. A GPU
// sends 3/8 of S to its node and half of it to the network over 24 GB/s of PCIe, but all four share
// the one card of 12.5 GB/s: 4 x 4/8.
TEST(ExchangeModelTest, WithoutNvlinkMessagesTakeTheSendersCard) {
  const ExchangeModel model(PcieNode(4, Cpu::kAmd), 2, 2, Version::kV230);
  const ExchangeTime time = model.Price(Exchange::kAllToAll, GiB(1));
  EXPECT_FALSE(time.through_rails);
  EXPECT_NEAR(time.transfer, 2 * 1073741824.0 / 12'500, 0.5);
}

// 1,024 ranks send each other 64 B: every rank posts 1,016 messages, 1 us each, and 1,023
// operations on 16 channels make eight batches of 128.
TEST(ExchangeModelTest, ManySmallMessagesWaitForTheProcessor) {
  const ExchangeModel model(DgxH100(), 128, 16, Version::kV230);
  const ExchangeTime time = model.Price(Exchange::kAllToAll, KiB(64));
  EXPECT_EQ(time.protocol, Protocol::kLl);
  EXPECT_NEAR(time.transfer, 1016, 1e-9);
  EXPECT_NEAR(time.latency, 6.6 + 8 * (5 + 0.6), 1e-9);
}

RC_GTEST_PROP(ExchangeModelProperty, LargerExchangesTakeLonger, ()) {
  const int nodes = *rc::gen::inRange(1, 20);
  const int gpus = *rc::gen::inRange(nodes == 1 ? 2 : 1, 9);
  const Node node = *rc::gen::element(DgxH100(gpus), DgxA100(gpus), PcieNode(gpus, Cpu::kAmd));
  const ExchangeModel model(node, nodes, *rc::gen::inRange(1, 32), Version::kV230);
  const auto exchange = *rc::gen::element(Exchange::kAllToAll, Exchange::kScatter,
                                          Exchange::kGather, Exchange::kShift);
  const auto size = *rc::gen::inRange<std::int64_t>(1 << 20, std::int64_t{1} << 34);
  const ExchangeTime one = model.Price(exchange, Bytes(size));
  const ExchangeTime two = model.Price(exchange, Bytes(2 * size));
  RC_ASSERT(one.transfer > 0);
  RC_ASSERT(one.channels >= 1 && one.channels <= model.channels().channels);
  RC_ASSERT(two.transfer + two.latency >= one.transfer / 2 + one.latency);
}

using Channels = PointToPointChannels;

// H100, one node: 24 compute channels, 32 as a power of two. 2 x 18 NVLinks are more than that.
TEST(PointToPointTest, OneNodeIsBoundByItsChannels) {
  EXPECT_EQ(MakePointToPointChannels(DgxH100(), 1, 24, Version::kV230), (Channels{32, 32, 4}));
  // Two channels over PCIe.
  EXPECT_EQ(MakePointToPointChannels(PcieNode(4, Cpu::kAmd), 1, 4, Version::kV230),
            (Channels{4, 2, 1}));
}

// Across nodes, 48 GB/s give 48 / 14 -> 4 channels. With 16 channels: 16 ranks are 2 crowds of
// eight, 4 x 2 <= 16; 64 ranks are 8 crowds, 2 x 8 <= 16; 256 ranks get one each.
TEST(PointToPointTest, TheNetworkIsPoorer) {
  const auto per_peer = [](int nodes) {
    return MakePointToPointChannels(DgxH100(), nodes, 16, Version::kV230);
  };
  EXPECT_EQ(per_peer(2), (Channels{16, 4, 1, false}));
  EXPECT_EQ(per_peer(8), (Channels{16, 2, 1, false}));
  EXPECT_EQ(per_peer(32), (Channels{16, 1, 1, false}));
}

// 2.28: two, and 2 x 64 > 4 x 16 halves it.
TEST(PointToPointTest, EarlierReleasesCountCardsOnly) {
  EXPECT_EQ(MakePointToPointChannels(DgxH100(), 2, 16, Version::kV228),
            (Channels{16, 2, 1, false}));
  EXPECT_EQ(MakePointToPointChannels(DgxH100(), 8, 16, Version::kV228),
            (Channels{16, 1, 1, false}));
}

// NVLink: chunks of 512 KiB, parts of at least 64 KiB. 256 KiB make 4 parts, of which LL takes at
// most 16 KiB each. Between two ranks, 16 of the 32 channels take up to 16 x 32 chunks.
TEST(PointToPointTest, MessagesAreCutIntoParts) {
  const Channels channels{32, 32, 16};
  EXPECT_EQ(PartsOf(KiB(256), PeerKind::kNvlink, channels),
            (MessageParts{.parts = 4, .part = KiB(64), .chunk = KiB(512), .low_latency = false}));
  EXPECT_EQ(PartsOf(KiB(8), PeerKind::kNvlink, channels),
            (MessageParts{.parts = 1, .part = KiB(8), .chunk = KiB(512), .low_latency = true}));
  EXPECT_EQ(PartsOf(MiB(64), PeerKind::kNvlink, channels).parts, 16);
  EXPECT_EQ(PartsOf(MiB(256), PeerKind::kNvlink, channels).parts, 16);
  EXPECT_EQ(PartsOf(MiB(257), PeerKind::kNvlink, channels).parts, 32);
}

// Network: chunks of 128 KiB, parts of at least 64 KiB; below one chunk a quarter of it, below
// eight half.
TEST(PointToPointTest, SmallMessagesGoInSmallChunksOverTheNetwork) {
  const Channels channels{16, 4, 1, false};
  EXPECT_EQ(PartsOf(KiB(64), PeerKind::kNetwork, channels),
            (MessageParts{.parts = 1, .part = KiB(64), .chunk = KiB(32), .low_latency = false}));
  EXPECT_EQ(PartsOf(KiB(512), PeerKind::kNetwork, channels),
            (MessageParts{.parts = 4, .part = KiB(128), .chunk = KiB(64), .low_latency = false}));
  EXPECT_EQ(PartsOf(MiB(1), PeerKind::kNetwork, channels).chunk, KiB(128));
}

}  // namespace

}  // namespace stepcast::nccl
