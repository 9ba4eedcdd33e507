#include "src/base/quantity.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast {
namespace {

// The largest size that files may hold, and the largest that fits into the type.
TEST(Quantity, LargeNumbersOfBytes) {
  EXPECT_EQ(ParseBytes("1152921504606846976 B"), Bytes(std::int64_t{1} << 60));
  EXPECT_EQ(ParseBytes("9223372036854775807 B"), Bytes(std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(ParseBytes("9223372036854775808 B").has_value());
}

TEST(ParseBytes, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(ParseBytes("0 B").value(), Bytes(0));
  EXPECT_EQ(ParseBytes("25 MiB").value(), Bytes(26'214'400));  // 25 x 1,048,576
  EXPECT_EQ(ParseBytes("25MiB").value(), Bytes(26'214'400));
  EXPECT_EQ(ParseBytes("25 MB").value(), Bytes(25'000'000));
  EXPECT_EQ(ParseBytes("0.5 KiB").value(), Bytes(512));
  EXPECT_EQ(ParseBytes("1.5 TiB").value(), Bytes(1'649'267'441'664));  // 3 x 2^39
}

TEST(ParseBytes, RoundsToTheNearestByte) {
  EXPECT_EQ(ParseBytes("0.4 B").value(), Bytes(0));
  EXPECT_EQ(ParseBytes("0.5 B").value(), Bytes(1));
  EXPECT_EQ(ParseBytes("0.3 KiB").value(), Bytes(307));  // 307.2
}

TEST(ParseBandwidth, ReadsBitRatesAsAnEighth) {
  EXPECT_EQ(ParseBandwidth("400 Gbps").value(), Bandwidth::GigabytesPerSecond(50));
  EXPECT_EQ(ParseBandwidth("450 GB/s").value(), Bandwidth::GigabytesPerSecond(450));
  EXPECT_EQ(ParseBandwidth("1 GiB/s").value(), Bandwidth::BytesPerSecond(1'073'741'824));
  EXPECT_EQ(ParseBandwidth("3.35 TB/s").value(), Bandwidth::GigabytesPerSecond(3350));
}

TEST(ParseTime, ReadsPicosecondsToHours) {
  EXPECT_EQ(ParseTime("2.5us").value(), Nanoseconds(2500));
  EXPECT_EQ(ParseTime("0 ms").value(), Time());
  EXPECT_EQ(ParseTime("1 min").value(), Seconds(60));
  EXPECT_EQ(ParseTime("1.5 h").value(), Seconds(5400));
}

TEST(ParseFlopRate, ReadsTera) {
  EXPECT_EQ(ParseFlopRate("989.4 TFLOPS").value(), FlopRate::FlopsPerSecond(989'400'000'000'000));
}

struct BadQuantity {
  std::string text;
  std::string message;
  std::string hint;
};

TEST(ParseBytes, SaysWhatIsWrong) {
  const BadQuantity cases[] = {
      {"25", "bytes need a unit: '25'", "write for example '25 MiB'"},
      {"", "bytes need a number and a unit: ''", "write for example '25 MiB'"},
      {"MiB", "bytes need a number and a unit: 'MiB'", "write for example '25 MiB'"},
      {"1. MiB", "bytes need a number and a unit: '1. MiB'", "write for example '25 MiB'"},
      {"+1 MiB", "bytes need a number and a unit: '+1 MiB'", "write for example '25 MiB'"},
      {"-5 MiB", "bytes cannot be negative: '-5 MiB'", "write for example '25 MiB'"},
      {"010 MiB", "a number cannot have a leading zero: '010 MiB'",
       "write a decimal number without leading zeros, such as '10 MiB' or '0.5 ms'"},
      {"25 mib", "'mib' is not a unit for bytes: '25 mib'", "did you mean 'MiB'?"},
      {"25 MiB/s", "a number of bytes is needed here, not a bandwidth: '25 MiB/s'",
       "write for example '25 MiB'"},
      {"25 ms", "a number of bytes is needed here, not a time: '25 ms'",
       "write for example '25 MiB'"},
      {"1e3 B", "'e3 B' is not a unit for bytes: '1e3 B'",
       "units are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"},
      {"9000000000 TiB", "the number is too large: '9000000000 TiB'", "write for example '25 MiB'"},
      {"12345678901234567890 B",
       "a number can have at most 19 digits on each side of the decimal point: "
       "'12345678901234567890 B'",
       "use a larger unit"},
  };
  for (const BadQuantity& bad : cases) {
    const QuantityResult<Bytes> result = ParseBytes(bad.text);
    ASSERT_FALSE(result.has_value()) << bad.text;
    EXPECT_EQ(result.error().message, bad.message);
    EXPECT_EQ(result.error().hint, bad.hint) << bad.text;
  }
}

TEST(FormatBytes, GivesThreeOrFourDigits) {
  EXPECT_EQ(FormatBytes(Bytes(0)), "0 B");
  EXPECT_EQ(FormatBytes(Bytes(999)), "999 B");
  EXPECT_EQ(FormatBytes(MiB(25)), "25 MiB");
  EXPECT_EQ(FormatBytes(Bytes(15'998'753'178)), "14.9 GiB");  // 14.9000 x 2^30
  EXPECT_EQ(FormatBytes(MiB(1023)), "1023 MiB");
  // 1023.6 MiB would print as 1024 MiB.
  EXPECT_EQ(FormatBytes(Bytes(1'073'322'394)), "1.00 GiB");
  EXPECT_EQ(FormatBytes(Bytes(-512)), "-512 B");
}

TEST(FormatTime, CarriesIntoTheNextUnit) {
  EXPECT_EQ(FormatTime(Time()), "0 s");
  EXPECT_EQ(FormatTime(Microseconds(1250)), "1.25 ms");
  EXPECT_EQ(FormatTime(Microseconds(12'345)), "12.3 ms");
  EXPECT_EQ(FormatTime(Nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(FormatTime(Seconds(5400)), "5400 s");
}

TEST(FormatBandwidth, IsDecimal) {
  EXPECT_EQ(FormatBandwidth(Bandwidth::GigabytesPerSecond(450)), "450 GB/s");
  EXPECT_EQ(FormatBandwidth(Bandwidth::BytesPerSecond(370'800'000'000)), "371 GB/s");
}

TEST(Exact, ChoosesTheLargestUnitThatDivides) {
  EXPECT_EQ(ExactBytes(Bytes(26'214'400)), "25 MiB");
  EXPECT_EQ(ExactBytes(Bytes(400'000'000'000)), "400 GB");
  EXPECT_EQ(ExactBytes(Bytes(0)), "0 B");
  EXPECT_EQ(ExactBytes(Bytes(17)), "17 B");
  EXPECT_EQ(ExactTime(Nanoseconds(1500)), "1500 ns");
  EXPECT_EQ(ExactBandwidth(Bandwidth::GigabytesPerSecond(50)), "50 GB/s");
}

RC_GTEST_PROP(Exact, ReadsBackToTheSameValue, ()) {
  const std::int64_t mantissa = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
  std::int64_t n = mantissa;
  // Numbers with binary and decimal trailing zeros, so that every unit occurs.
  for (int i = *rc::gen::inRange(0, 12); i > 0; --i) n *= 10;
  if (*rc::gen::arbitrary<bool>()) n = mantissa << *rc::gen::inRange(0, 41);
  RC_ASSERT(ParseBytes(ExactBytes(Bytes(n))).value() == Bytes(n));
  RC_ASSERT(ParseTime(ExactTime(Time::FromPicoseconds(n))).value() == Time::FromPicoseconds(n));
  RC_ASSERT(ParseBandwidth(ExactBandwidth(Bandwidth::BytesPerSecond(n))).value() ==
            Bandwidth::BytesPerSecond(n));
}

RC_GTEST_PROP(Format, NeverPrintsMoreThanFourDigitsBelowTheLargestUnit, ()) {
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  const std::string text = FormatBytes(Bytes(n));
  int digits = 0;
  for (char c : text) digits += c >= '0' && c <= '9';
  RC_ASSERT(digits <= 4);
}

RC_GTEST_PROP(Parse, TakesAnyTextWithoutHarm, (const std::string& text)) {
  const bool all = ParseBytes(text).has_value() && ParseTime(text).has_value();
  RC_ASSERT(!all);  // no unit belongs to both
}

}  // namespace
}  // namespace stepcast
