#include "src/base/all_to_all_loads.h"

#include <gtest/gtest.h>

namespace stepcast {
namespace {

using First = AllToAllLoads::First;

// Three ranks send each other 100 rows on average. With 1.5 times the mean, the first receives 150
// from each, and the others (300 - 150) / 2.
TEST(AllToAllLoads, OthersShareOutWhatTheFirstDoesNotGet) {
  const AllToAllLoads there = AllToAllLoads::Of(1.5, 3, First::kReceivesMost);
  EXPECT_EQ(ElementsSent(there, 150, DataType::kFp32, 1, 0), 150);
  EXPECT_EQ(ElementsSent(there, 150, DataType::kFp32, 0, 1), 75);
  EXPECT_EQ(ElementsSent(there, 150, DataType::kFp32, 2, 1), 75);
  const AllToAllLoads back = AllToAllLoads::Of(1.5, 3, First::kSendsMost);
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      EXPECT_EQ(ElementsSent(back, 150, DataType::kFp32, a, b),
                ElementsSent(there, 150, DataType::kFp32, b, a));
    }
  }
}

// Half of 160 elements are 80, even if floating-point arithmetic yields slightly less.
TEST(AllToAllLoads, PartsAreRounded) {
  const AllToAllLoads there = {First::kReceivesMost, 0.5 - 1e-16};
  EXPECT_EQ(ElementsSent(there, 160, DataType::kFp32, 0, 1), 80);
}

TEST(AllToAllLoads, AreEvenWithoutImbalance) {
  EXPECT_EQ(AllToAllLoads::Of(1, 4, First::kSendsMost), AllToAllLoads());
  EXPECT_EQ(ElementsSent({}, 7, DataType::kBf16, 2, 1), 7);
}

// The first receives all rows; a word still goes to each of the others.
TEST(AllToAllLoads, APartHasAWordAtLeast) {
  const AllToAllLoads all = AllToAllLoads::Of(4, 4, First::kReceivesMost);
  EXPECT_EQ(ElementsSent(all, 400, DataType::kFp32, 0, 1), 1);
  EXPECT_EQ(ElementsSent(all, 400, DataType::kBf16, 0, 1), 2);
  EXPECT_EQ(ElementsSent(all, 1, DataType::kBf16, 0, 1), 1);
}

}  // namespace
}  // namespace stepcast
