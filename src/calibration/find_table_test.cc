#include <gtest/gtest.h>

#include "src/calibration/profiles.h"

namespace stepcast::calibration {
namespace {

CollectiveTable Table(CollectiveKind kind, int ranks, int nodes) {
  CollectiveTable table;
  table.collective = kind;
  table.ranks = ranks;
  table.nodes = nodes;
  return table;
}

const std::vector<CollectiveTable> kTables = {
    Table(CollectiveKind::kAllReduce, 4, 1), Table(CollectiveKind::kAllReduce, 4, 2),
    Table(CollectiveKind::kAllReduce, 2, 2), Table(CollectiveKind::kAllGather, 4, 4)};

TEST(FindTable, FindsTheExactKeyAndNothingElse) {
  EXPECT_EQ(FindTable(kTables, CollectiveKind::kAllReduce, 4, 2), &kTables[1]);
  EXPECT_EQ(FindTable(kTables, CollectiveKind::kAllReduce, 4, 4), nullptr);
  EXPECT_EQ(FindTable(kTables, CollectiveKind::kAllReduce, 2, 1), nullptr);
  EXPECT_EQ(FindTable(kTables, CollectiveKind::kBroadcast, 4, 4), nullptr);
}

TEST(FindTable, AFlatClusterTakesTheMostNodes) {
  EXPECT_EQ(FindTableOfFlatCluster(kTables, CollectiveKind::kAllReduce, 4), &kTables[1]);
  EXPECT_EQ(FindTableOfFlatCluster(kTables, CollectiveKind::kAllReduce, 2), &kTables[2]);
  EXPECT_EQ(FindTableOfFlatCluster(kTables, CollectiveKind::kAllGather, 4), &kTables[3]);
  EXPECT_EQ(FindTableOfFlatCluster(kTables, CollectiveKind::kAllReduce, 8), nullptr);
}

// A ring of four ranks has three times as many steps as one of two, and 1.5 times as many bytes on
// the wire.
TEST(FindTable, OtherRanksScaleAsARing) {
  CollectiveTable two = Table(CollectiveKind::kAllReduce, 2, 2);
  two.points = {{Bytes(1'000'000), Microseconds(1'100)}, {Bytes(2'000'000), Microseconds(2'100)}};
  const auto four = TableFromOtherRanks({two}, CollectiveKind::kAllReduce, 4);
  ASSERT_TRUE(four);
  EXPECT_EQ(four->ranks, 4);
  EXPECT_EQ(four->points[0].second, Microseconds(1'800));
  EXPECT_EQ(four->points[1].second, Microseconds(3'300));
  EXPECT_FALSE(TableFromOtherRanks({two}, CollectiveKind::kBroadcast, 4));
}

}  // namespace
}  // namespace stepcast::calibration
