#include "gtest/gtest.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

TEST(NumberTextTest, GroupsThousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(8030261248), "8,030,261,248");
  EXPECT_EQ(Grouped(-999), "-999");
  EXPECT_EQ(Grouped(-1000), "-1,000");
}

TEST(NumberTextTest, DecimalsAreGroupedBeforeThePoint) {
  EXPECT_EQ(Decimal(1234.567, 2), "1,234.57");
  EXPECT_EQ(Decimal(-1234567.0, 1), "-1,234,567.0");
  EXPECT_EQ(Decimal(12.0, 0), "12");
}

TEST(NumberTextTest, MillisecondsKeepTheFirstDigitOfSmallTimes) {
  EXPECT_EQ(Milliseconds(Seconds(2)), "2,000.000");
  EXPECT_EQ(Milliseconds(Nanoseconds(1'234'567)), "1.235");
  EXPECT_EQ(Milliseconds(Time()), "0.000");
  EXPECT_EQ(Milliseconds(Nanoseconds(40)), "0.00004");
  EXPECT_EQ(Milliseconds(Picoseconds(1)), "0.000000001");
}

TEST(NumberTextTest, AUnitFitsTheLargestAmountOfItsColumn) {
  EXPECT_STREQ(UnitFor(GiB(80)).name, "GiB");
  EXPECT_STREQ(UnitFor(GiB(1)).name, "GiB");
  EXPECT_STREQ(UnitFor(GiB(1) - Bytes(1)).name, "MiB");
  EXPECT_STREQ(UnitFor(KiB(3)).name, "KiB");
  EXPECT_STREQ(UnitFor(Bytes(0)).name, "B");
}

TEST(NumberTextTest, BytesInAUnit) {
  const ByteUnit gib = UnitFor(GiB(1));
  EXPECT_EQ(In(gib, GiB(80)), "80.00");
  EXPECT_EQ(In(gib, GiB(2000)), "2,000.00");
  EXPECT_EQ(In(gib, MiB(512)), "0.50");
  EXPECT_EQ(In(gib, MiB(-512)), "-0.50");
  EXPECT_EQ(In(gib, Bytes(0)), "0.00");
  EXPECT_EQ(In(gib, MiB(1)), "<0.01");  // 0.00098
  EXPECT_EQ(In(gib, MiB(-1)), ">-0.01");
  EXPECT_EQ(In(UnitFor(Bytes(3)), 2.0), "2");
}

TEST(NumberTextTest, NothingHasNoSign) {
  EXPECT_EQ(Signed(1.005, 1), "+1.0");
  EXPECT_EQ(Signed(-1234.5, 2), "-1,234.50");
  EXPECT_EQ(Signed(0, 2), "0.00");
  EXPECT_EQ(Signed(-0.0049, 2), "0.00");
  EXPECT_EQ(Signed(-0.0051, 2), "-0.01");
  EXPECT_EQ(Decimal(-0.0049, 2), "0.00");
  EXPECT_EQ(Decimal(-0.4, 0), "0");
}

TEST(NumberTextTest, PercentOfNothingHasNoMeaning) {
  EXPECT_EQ(Percent(Microseconds(1), Microseconds(3)), "33.3");
  EXPECT_EQ(Percent(Time(), Time()), "-");
}

}  // namespace
}  // namespace stepcast::report
