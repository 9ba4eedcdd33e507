#include "src/nccl/work_channels.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::nccl {
namespace {

int Used(Function function, Protocol protocol, Bytes bytes, Version version = Version::kV230) {
  return ChannelsUsed({.function = function, .bytes = bytes}, Algorithm::kRing, protocol, 8, 24,
                      version);
}

// An all-reduce moves each byte twice, so a cell of 32 KiB of traffic is 16 KiB of data; with LL,
// which counts four times, 4 KiB. 64 KiB: 4 cells; with LL 16.
TEST(WorkChannelsTest, SmallMessagesMakeFewCells) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, Bytes(1)), 1);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(16)), 1);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(64)), 4);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kLl, KiB(64)), 16);
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, MiB(64)), 24);
}

// A broadcast moves each byte once: 64 KiB are 2 cells. In an all-gather of 64 KiB, a rank has 8
// KiB, which count eight times: 2 cells of 4 KiB.
TEST(WorkChannelsTest, TrafficDependsOnTheFunction) {
  EXPECT_EQ(Used(Function::kBroadcast, Protocol::kSimple, KiB(64)), 2);
  EXPECT_EQ(Used(Function::kAllGather, Protocol::kSimple, KiB(64)), 2);
  EXPECT_EQ(Used(Function::kReduceScatter, Protocol::kSimple, KiB(64)), 2);
}

// Earlier releases have cells of half the size.
TEST(WorkChannelsTest, EarlierReleasesSpreadFarther) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, KiB(64), Version::kV228), 8);
}

TEST(WorkChannelsTest, CollNetUsesAll) {
  EXPECT_EQ(ChannelsUsed({.function = Function::kAllReduce, .bytes = KiB(1)},
                         Algorithm::kCollNetDirect, Protocol::kSimple, 8, 12, Version::kV230),
            12);
}

TEST(WorkChannelsTest, NothingToDoUsesNone) {
  EXPECT_EQ(Used(Function::kAllReduce, Protocol::kSimple, Bytes(0)), 0);
}

RC_GTEST_PROP(WorkChannelsProperty, NeverMoreThanChosen, ()) {
  const Collective collective{
      .function = *rc::gen::elementOf(std::vector(kFunctions.begin(), kFunctions.end())),
      .bytes = Bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 34))};
  const int most = *rc::gen::inRange(1, 65);
  const int used =
      ChannelsUsed(collective, Algorithm::kRing,
                   *rc::gen::elementOf(std::vector(kProtocols.begin(), kProtocols.end())),
                   *rc::gen::inRange(2, 2000), most,
                   *rc::gen::elementOf(std::vector(kVersions.begin(), kVersions.end())));
  RC_ASSERT(used >= 1);
  RC_ASSERT(used <= most);
}

}  // namespace
}  // namespace stepcast::nccl
