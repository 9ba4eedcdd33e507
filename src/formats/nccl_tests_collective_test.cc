#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/nccl_tests_convention.h"
#include "src/formats/nccl_tests.h"

namespace stepcast::formats {
namespace {

using Kinds = std::vector<CollectiveKind>;
using enum CollectiveKind;

// algbw of 100 GB/s, and busbw as nccl-tests prints it.
NcclTestsTraits Traits(bool reduces, bool rooted, CollectiveKind kind, int ranks) {
  return {.reduces = reduces,
          .rooted = rooted,
          .algbw = 100,
          .busbw = std::round(10'000 * BusFactor(kind, ranks)) / 100};
}

TEST(DeduceCollective, ByReductionRootAndBusFactor) {
  for (const int ranks : {2, 3, 8, 16, 64}) {
    const auto kinds = [&](bool reduces, bool rooted, CollectiveKind kind) {
      return DeduceCollective(Traits(reduces, rooted, kind, ranks), ranks).kinds;
    };
    EXPECT_EQ(kinds(true, false, kAllReduce), Kinds{kAllReduce}) << ranks;
    EXPECT_EQ(kinds(true, false, kReduceScatter), Kinds{kReduceScatter}) << ranks;
    EXPECT_EQ(kinds(true, true, kReduce), Kinds{kReduce}) << ranks;
    EXPECT_EQ(kinds(false, false, kSendRecv), Kinds{kSendRecv}) << ranks;
    EXPECT_EQ(kinds(false, true, kBroadcast), Kinds{kBroadcast}) << ranks;
    // Each of these pairs prints the same figures.
    EXPECT_EQ(kinds(false, false, kAllGather), (Kinds{kAllGather, kAllToAll})) << ranks;
    EXPECT_EQ(kinds(false, true, kScatter), (Kinds{kScatter, kGather})) << ranks;
  }
}

// 441.85 over 235.65 GB/s is 1.875, 2 x 15 / 16.
TEST(DeduceCollective, TellsTheRanksAsWell) {
  const DeducedCollective all_reduce =
      DeduceCollective({.reduces = true, .rooted = false, .algbw = 235.65, .busbw = 441.85}, 0);
  EXPECT_EQ(all_reduce.kinds, Kinds{kAllReduce});
  EXPECT_EQ(all_reduce.ranks, 16);
  // A ratio of 1.00 fits two ranks, or a reduce-scatter over very many.
  const auto one = DeduceCollective({.reduces = true, .rooted = false, .algbw = 9, .busbw = 9}, 0);
  EXPECT_EQ(one.kinds, (Kinds{kAllReduce, kReduceScatter}));
  EXPECT_EQ(one.ranks, 0);
  // Two digits do not distinguish 500 from 510.
  const auto many =
      DeduceCollective({.reduces = true, .rooted = false, .algbw = 1.00, .busbw = 1.99}, 0);
  EXPECT_EQ(many.kinds, Kinds{kAllReduce});
  EXPECT_EQ(many.ranks, 0);
}

TEST(DeduceCollective, SaysNothingWithoutColumns) {
  EXPECT_TRUE(DeduceCollective({}, 8).kinds.empty());
  // A ratio that no collective can have.
  EXPECT_TRUE(DeduceCollective({.reduces = true, .rooted = false, .algbw = 100, .busbw = 300}, 8)
                  .kinds.empty());
}

}  // namespace
}  // namespace stepcast::formats
