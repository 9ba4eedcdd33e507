#include "src/base/all_to_all_loads.h"

#include <gtest/gtest.h>

namespace stepcast {
namespace {

using First = AllToAllLoads::First;

// Four ranks with 100 rows for each other on average: with 1.6 times the mean the first gets 160 of
// each, and the others (400 - 160) / 3.
TEST(AllToAllLoads, OthersShareOutWhatTheFirstDoesNotGet) {
  const AllToAllLoads there = AllToAllLoads::Of(1.6, 4, First::kReceivesMost);
  EXPECT_EQ(ElementsSent(there, 160, DataType::kFp32, 1, 0), 160);
  EXPECT_EQ(ElementsSent(there, 160, DataType::kFp32, 0, 1), 80);
  EXPECT_EQ(ElementsSent(there, 160, DataType::kFp32, 2, 3), 80);
  const AllToAllLoads back = AllToAllLoads::Of(1.6, 4, First::kSendsMost);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      EXPECT_EQ(ElementsSent(back, 160, DataType::kFp32, a, b),
                ElementsSent(there, 160, DataType::kFp32, b, a));
    }
  }
}

TEST(AllToAllLoads, AreEvenWithoutImbalance) {
  EXPECT_EQ(AllToAllLoads::Of(1, 4, First::kSendsMost), AllToAllLoads());
  EXPECT_EQ(ElementsSent({}, 7, DataType::kBf16, 2, 1), 7);
}

// The first has all rows: a word goes to the others.
TEST(AllToAllLoads, APartHasAWordAtLeast) {
  const AllToAllLoads all = AllToAllLoads::Of(4, 4, First::kReceivesMost);
  EXPECT_EQ(ElementsSent(all, 400, DataType::kFp32, 0, 1), 1);
  EXPECT_EQ(ElementsSent(all, 400, DataType::kBf16, 0, 1), 2);
  EXPECT_EQ(ElementsSent(all, 1, DataType::kBf16, 0, 1), 1);
}

}  // namespace
}  // namespace stepcast
