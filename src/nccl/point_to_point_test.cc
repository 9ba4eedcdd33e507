#include <cstddef>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/nccl/exchange.h"
#include "src/nccl/sample_nodes.h"

namespace stepcast::nccl {
namespace {

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

// Three nodes of two: distances 0, 1, (3 is not a node,) 2; rank 0 meets itself, its neighbor, then
// nodes 1 and 2.
TEST(PointToPointTest, RoundsFollowTriangularNumbers) {
  EXPECT_EQ(ExchangeRounds(3, 2, 0),
            (std::vector<Round>{{0, 0}, {1, 1}, {2, 4}, {3, 5}, {4, 2}, {5, 3}}));
  std::vector<int> order;
  for (const Round& round : ExchangeRounds(1, 8, 0)) order.push_back(round.send_to);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 3, 6, 2, 7, 5, 4}));
}

RC_GTEST_PROP(PointToPointProperty, InEachRoundEveryRankHasOnePeerEachWay, ()) {
  const int nodes = *rc::gen::inRange(1, 9);
  const int local = *rc::gen::inRange(1, 9);
  const int ranks = nodes * local;
  std::vector<std::vector<Round>> rounds;
  for (int rank = 0; rank < ranks; ++rank) {
    rounds.push_back(ExchangeRounds(nodes, local, rank));
    std::set<int> peers;
    for (const Round& round : rounds.back()) peers.insert(round.send_to);
    RC_ASSERT(static_cast<int>(peers.size()) == ranks);
    RC_ASSERT(static_cast<int>(rounds.back().size()) == ranks);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks); ++i) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int to = rounds[static_cast<std::size_t>(rank)][i].send_to;
      RC_ASSERT(rounds[static_cast<std::size_t>(to)][i].receive_from == rank);
    }
  }
}

}  // namespace
}  // namespace stepcast::nccl
