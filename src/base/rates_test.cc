#include "src/base/rates.h"

#include "gtest/gtest.h"

namespace stepcast {
namespace {

TEST(BytesOverBandwidth, RoundsUpToAPicosecond) {
  // 1 B at 3 B/s is 333,333,333,333.33 ps.
  EXPECT_EQ(Bytes(1) / Bandwidth::BytesPerSecond(3), Picoseconds(333'333'333'334));
  EXPECT_EQ(Bytes(0) / Bandwidth::BytesPerSecond(3), Time());
  EXPECT_EQ(Bytes(450'000'000'000) / Bandwidth::GigabytesPerSecond(450), Seconds(1));
}

TEST(BytesOverBandwidth, DoesNotOverflowOnLargeAmounts) {
  // 2^60 B at 1 TB/s: 1,152,921.504606846976 s.
  EXPECT_EQ(Bytes(std::int64_t{1} << 60) / Bandwidth::GigabytesPerSecond(1000),
            Picoseconds(1'152'921'504'606'846'976));
}

TEST(Scaled, NeverInventsBandwidth) {
  EXPECT_EQ(Bandwidth::BytesPerSecond(10).Scaled(0.99), Bandwidth::BytesPerSecond(9));
  EXPECT_EQ(TimeFor(1000, FlopRate::TeraflopsPerSecond(1).Scaled(0.5)), Nanoseconds(2));
}

TEST(BytesOverBandwidth, RefusesARateOfZero) {
  EXPECT_DEATH(static_cast<void>(Bytes(1) / Bandwidth()), "the rate must be positive");
}

}  // namespace
}  // namespace stepcast
