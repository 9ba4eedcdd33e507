#include "src/base/nccl_tests_convention.h"

#include "gtest/gtest.h"

namespace stepcast {
namespace {

// nccl-tests, doc/PERFORMANCE.md: for 8 ranks the factors are 2 x 7 / 8 and 7 / 8.
TEST(NcclTestsConvention, BusBandwidthCountsWhatEveryRankSends) {
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveKind::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveKind::kAllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveKind::kReduceScatter, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveKind::kBroadcast, 8), 1);
}

// 1 KiB over 6 ranks: 170 bytes each, rounded down to 160, a multiple of 16.
TEST(NcclTestsConvention, SizesAreDealtOutInWholeUnits) {
  EXPECT_EQ(NcclTestsSize(CollectiveKind::kAllGather, Bytes(1024), 6), Bytes(960));
  EXPECT_EQ(NcclTestsSize(CollectiveKind::kReduceScatter, Bytes(1024), 8), Bytes(1024));
  EXPECT_EQ(NcclTestsSize(CollectiveKind::kAllReduce, Bytes(1000), 6), Bytes(1000));
  // Less than one unit for each rank: nccl-tests prints such rows with size 0.
  EXPECT_EQ(NcclTestsSize(CollectiveKind::kAllGather, Bytes(64), 8), Bytes(0));
}

TEST(NcclTestsConvention, ProgramsAreKnownByFileAndByName) {
  EXPECT_EQ(CollectiveOfNcclTest("all_reduce_perf"), CollectiveKind::kAllReduce);
  EXPECT_EQ(CollectiveOfNcclTest("/opt/build/reduce_scatter_perf_mpi"),
            CollectiveKind::kReduceScatter);
  EXPECT_EQ(CollectiveOfNcclTest("AllGather"), CollectiveKind::kAllGather);
  EXPECT_EQ(CollectiveOfNcclTest("hypercube_perf"), std::nullopt);
  EXPECT_EQ(CollectiveOfNcclTest(""), std::nullopt);
}

}  // namespace
}  // namespace stepcast
