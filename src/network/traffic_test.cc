#include "src/network/traffic.h"

#include <numeric>

#include "gtest/gtest.h"
#include "tests/examples/sample_lists.h"
#include "tests/examples/sample_networks.h"

namespace stepcast::network {
namespace {

using collective::MakeSample;
using collective::StepList;

Network Star(int ranks) {
  return MakeStar(
      std::vector<Time>(static_cast<std::size_t>(ranks), Microseconds(2)),
      std::vector<Bandwidth>(static_cast<std::size_t>(ranks), Bandwidth::GigabytesPerSecond(12)));
}

std::vector<int> Places(const StepList& list) {
  std::vector<int> places(static_cast<std::size_t>(list.participants()));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

// Three channels of a ring share a rank's link: a third each.
TEST(TrafficTest, ChannelsShareALink) {
  const Network network = Star(4);
  const auto ring = MakeSample({"ring", CollectiveKind::kAllReduce},
                               {.size = Bytes(4 * 3 * 1000), .ranks_per_node = 4, .channels = 3});
  const Traffic traffic = Traffic::Make(*ring, network, Places(*ring)).value();
  EXPECT_EQ(traffic.connections().size(), 12U);
  for (const Connection& connection : traffic.connections()) {
    EXPECT_EQ(connection.rate, Bandwidth::GigabytesPerSecond(4));
    EXPECT_EQ(connection.latency, Microseconds(2));
    EXPECT_EQ(connection.messages, 6);
    EXPECT_EQ(connection.bytes, 6000);
  }
  // 6 x 3,000 bytes up and as many down, less a byte a message that rounding could take.
  EXPECT_EQ(traffic.loads().size(), 8U);
  EXPECT_DOUBLE_EQ(traffic.loads()[0].bytes, 18000);
  EXPECT_EQ(traffic.bandwidth_bound(), Bytes(18000 - 18) / Bandwidth::GigabytesPerSecond(12));
}

// Two trees over 6 ranks. Rank 2 is an inner node of the first, with children 1 and 3 and parent 4,
// and a leaf of the second, with parent 3. Its outgoing link carries a half up in each tree and a
// half down twice: a quarter of the link for each of the four.
TEST(TrafficTest, TreesShareALinkByTheirBytes) {
  const Network network = Star(6);
  const auto tree =
      MakeSample({"tree", CollectiveKind::kAllReduce}, {.size = Bytes(2000), .ranks_per_node = 6});
  const Traffic traffic = Traffic::Make(*tree, network, Places(*tree)).value();
  for (const Connection& connection : traffic.connections()) {
    if (tree->ParticipantOf(connection.from) != 2) continue;
    EXPECT_EQ(connection.rate, Bandwidth::GigabytesPerSecond(3));
    EXPECT_EQ(connection.bytes, 1000);
  }
}

// PAT's stages run one after the other, so each has the whole link.
TEST(TrafficTest, StagesDoNotShare) {
  const Network network = Star(8);
  const auto pat =
      MakeSample({"pat", CollectiveKind::kAllGather}, {.size = Bytes(8000), .ranks_per_node = 8});
  const Traffic traffic = Traffic::Make(*pat, network, Places(*pat)).value();
  EXPECT_EQ(traffic.connections().size(), 24U);
  for (const Connection& connection : traffic.connections()) {
    EXPECT_EQ(connection.rate, Bandwidth::GigabytesPerSecond(12));
  }
}

TEST(TrafficTest, NamesTheTwoWithoutAWay) {
  const SampleNetwork sample = MakeSampleNetwork(2, 2, 0);
  const auto nvls = MakeSample({"nvls", CollectiveKind::kAllReduce},
                               {.size = Bytes(8000), .nodes = 2, .ranks_per_node = 2});
  const std::vector<int> places = {0, 1, 2, 3, 4};  // node 0's switch for all
  const auto traffic = Traffic::Make(*nvls, sample.network, places);
  ASSERT_FALSE(traffic.has_value());
  EXPECT_EQ(traffic.error().message, "there is no route from node1/gpu0 to node0/switch");
}

}  // namespace
}  // namespace stepcast::network
