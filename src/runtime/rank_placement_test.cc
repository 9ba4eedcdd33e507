#include "src/runtime/rank_placement.h"

#include <vector>

#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

TEST(PlacesOf, RanksOfOneHostAreOneNode) {
  const std::vector<Place> places = PlacesOf({{"a"}, {"a"}, {"b"}, {"b"}, {"b"}});
  const std::vector<int> nodes{0, 0, 1, 1, 1};
  const std::vector<int> local_ranks{0, 1, 0, 1, 2};
  const std::vector<int> together{2, 2, 3, 3, 3};
  ASSERT_EQ(places.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(places[i].rank, static_cast<int>(i));
    EXPECT_EQ(places[i].ranks, 5);
    EXPECT_EQ(places[i].node, nodes[i]);
    EXPECT_EQ(places[i].nodes, 2);
    EXPECT_EQ(places[i].local_rank, local_ranks[i]);
    EXPECT_EQ(places[i].local_ranks, together[i]);
  }
}

TEST(PlacesOf, RoundRobinPlacementKeepsHostsTogether) {
  const std::vector<Place> places = PlacesOf({{"a"}, {"b"}, {"a"}, {"b"}});
  EXPECT_EQ(places[2].node, 0);
  EXPECT_EQ(places[2].local_rank, 1);
  EXPECT_EQ(places[3].node, 1);
  EXPECT_EQ(places[3].local_rank, 1);
}

TEST(PlacesOf, LocalRanksAsTheLauncherSays) {
  const std::vector<Place> places = PlacesOf({{"a", 1}, {"a", 0}});
  EXPECT_EQ(places[0].local_rank, 1);
  EXPECT_EQ(places[1].local_rank, 0);
  EXPECT_EQ(places[1].nodes, 1);
}

TEST(PlacesOf, TheSameLocalRankTwiceMeansTwoNodesOfOneName) {
  const std::vector<Place> places = PlacesOf({{"box", 0}, {"box", 1}, {"box", 0}, {"box", 1}});
  EXPECT_EQ(places[1].node, 0);
  EXPECT_EQ(places[2].node, 1);
  EXPECT_EQ(places[3].node, 1);
  EXPECT_EQ(places[3].nodes, 2);
  EXPECT_EQ(places[3].local_ranks, 2);
}

}  // namespace
}  // namespace stepcast::runtime
