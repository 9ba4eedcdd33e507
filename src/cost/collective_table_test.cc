#include <algorithm>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/collective_price.h"

namespace stepcast::cost {
namespace {

// 4 KiB in 1.8 ms, 1 MiB in 13.1 ms: eight doublings apart.
calibration::CollectiveTable Table() {
  calibration::CollectiveTable table;
  table.collective = CollectiveKind::kAllReduce;
  table.ranks = 4;
  table.nodes = 4;
  table.points = {{KiB(4), Microseconds(1800)}, {MiB(1), Microseconds(13100)}};
  return table;
}

TEST(CollectiveTableTest, IsExactAtItsPoints) {
  const TableTime first = TimeFromTable(Table(), KiB(4));
  EXPECT_EQ(first.time, Microseconds(1800));
  EXPECT_EQ(first.provenance, Provenance::kMeasured);
  const TableTime last = TimeFromTable(Table(), MiB(1));
  EXPECT_EQ(last.time, Microseconds(13100));
  EXPECT_EQ(last.provenance, Provenance::kMeasured);
}

TEST(CollectiveTableTest, IsLinearInLogSizeBetweenPoints) {
  // 64 KiB is four of the eight doublings up: 1.8 + 11.3 x 4/8 = 7.45 ms.
  const TableTime middle = TimeFromTable(Table(), KiB(64));
  EXPECT_EQ(middle.time, Microseconds(7450));
  EXPECT_EQ(middle.provenance, Provenance::kInterpolated);
  // 8 KiB is one of eight: 1.8 + 11.3 / 8 = 3.2125 ms.
  EXPECT_EQ(TimeFromTable(Table(), KiB(8)).time, Nanoseconds(3'212'500));
  // 512 KiB is seven of eight: 1.8 + 11.3 x 7/8 = 11.6875 ms.
  EXPECT_EQ(TimeFromTable(Table(), KiB(512)).time, Nanoseconds(11'687'500));
}

TEST(CollectiveTableTest, FindsTheRightPairOfPoints) {
  calibration::CollectiveTable table = Table();
  table.points.push_back({MiB(4), Microseconds(33100)});
  // 2 MiB is one of the two doublings from 1 MiB to 4 MiB: 13.1 + 20 / 2 = 23.1 ms.
  EXPECT_EQ(TimeFromTable(table, MiB(2)).time, Microseconds(23100));
}

TEST(CollectiveTableTest, BelowTheFirstPointTakesItsTime) {
  for (Bytes bytes : {Bytes(0), Bytes(1), KiB(4) - Bytes(1)}) {
    const TableTime below = TimeFromTable(Table(), bytes);
    EXPECT_EQ(below.time, Microseconds(1800));
    EXPECT_EQ(below.provenance, Provenance::kExtrapolated);
  }
}

TEST(CollectiveTableTest, BeyondTheLastPointKeepsItsBandwidth) {
  const TableTime beyond = TimeFromTable(Table(), MiB(10));
  EXPECT_EQ(beyond.time, Microseconds(131000));
  EXPECT_EQ(beyond.provenance, Provenance::kExtrapolated);
  // 13.1 ms x (2^20 + 1) / 2^20 = 13 100 012 493.13 ps, rounded up.
  EXPECT_EQ(TimeFromTable(Table(), MiB(1) + Bytes(1)).time, Picoseconds(13'100'012'494));
}

TEST(CollectiveTableTest, OnePointIsEnough) {
  calibration::CollectiveTable table = Table();
  table.points = {{MiB(1), Milliseconds(1)}};
  EXPECT_EQ(TimeFromTable(table, KiB(1)).time, Milliseconds(1));
  EXPECT_EQ(TimeFromTable(table, MiB(1)).time, Milliseconds(1));
  EXPECT_EQ(TimeFromTable(table, MiB(3)).time, Milliseconds(3));
}

RC_GTEST_PROP(CollectiveTableTest, StaysBetweenTheNeighbouringPoints, ()) {
  const auto bytes = Bytes(*rc::gen::inRange<std::int64_t>(4096, 1 << 20));
  const Time time = TimeFromTable(Table(), bytes).time;
  RC_ASSERT(time >= Microseconds(1800));
  RC_ASSERT(time <= Microseconds(13100));
}

RC_GTEST_PROP(CollectiveTableTest, LargerSizesTakeLonger, ()) {
  const auto bytes = *rc::gen::inRange<std::int64_t>(0, 1 << 22);
  const auto more = *rc::gen::inRange<std::int64_t>(0, 1 << 22);
  RC_ASSERT(TimeFromTable(Table(), Bytes(bytes)).time <=
            TimeFromTable(Table(), Bytes(bytes + more)).time);
}

}  // namespace
}  // namespace stepcast::cost
