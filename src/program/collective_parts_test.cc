#include "gtest/gtest.h"
#include "src/base/collective_kind.h"
#include "src/program/data_flow.h"

namespace stepcast::program {
namespace {

// 12 elements among 4 ranks: parts of 3.
TEST(CollectiveParts, AreWhatARankReadsAndWrites) {
  EXPECT_EQ(PartsOf(CollectiveKind::kAllReduce, 12, 4), (CollectiveParts{12, 12}));
  EXPECT_EQ(PartsOf(CollectiveKind::kBroadcast, 12, 4), (CollectiveParts{12, 12}));
  EXPECT_EQ(PartsOf(CollectiveKind::kReduceScatter, 12, 4), (CollectiveParts{12, 3}));
  EXPECT_EQ(PartsOf(CollectiveKind::kAllGather, 12, 4), (CollectiveParts{3, 12}));
  // The own part of 3 stays.
  EXPECT_EQ(PartsOf(CollectiveKind::kAllToAll, 12, 4), (CollectiveParts{9, 9}));
  EXPECT_EQ(PartsOf(CollectiveKind::kAllToAll, 12, 1), (CollectiveParts{0, 0}));
}

// Rank 1 of 4 sends its parts to ranks 2, 3 and 0, and receives them from ranks 0, 3 and 2.
TEST(CollectiveParts, OfAnAllToAllAreInOrderOfDistance) {
  EXPECT_EQ(AllToAllReceiver(1, 0, 4), 2);
  EXPECT_EQ(AllToAllReceiver(1, 1, 4), 3);
  EXPECT_EQ(AllToAllReceiver(1, 2, 4), 0);
  EXPECT_EQ(AllToAllSender(1, 0, 4), 0);
  EXPECT_EQ(AllToAllSender(1, 1, 4), 3);
  EXPECT_EQ(AllToAllSender(1, 2, 4), 2);
}

// Each part's receiver finds the right sender, and never itself.
TEST(CollectiveParts, SendersAndReceiversOfAnAllToAllMatch) {
  for (int ranks = 2; ranks < 9; ++ranks) {
    for (int position = 0; position < ranks; ++position) {
      for (int part = 0; part + 1 < ranks; ++part) {
        const int receiver = AllToAllReceiver(position, part, ranks);
        EXPECT_NE(receiver, position);
        EXPECT_EQ(AllToAllSender(receiver, part, ranks), position);
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::program
