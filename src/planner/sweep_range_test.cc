#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/bytes.h"
#include "src/base/quantity.h"
#include "src/planner/sweep_grid.h"

namespace stepcast::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Values(const std::string& text) {
  const auto range = ReadRange(text);
  if (!range) return {"no range"};
  return *range ? **range : std::vector<std::string>{range->error().message};
}

TEST(SweepRangeTest, FactorsAndSteps) {
  EXPECT_THAT(Values("1..64 x2"), ElementsAre("1", "2", "4", "8", "16", "32", "64"));
  EXPECT_THAT(Values(" 1 .. 64x4 "), ElementsAre("1", "4", "16", "64"));
  EXPECT_THAT(Values("1..9 +2"), ElementsAre("1", "3", "5", "7", "9"));
  EXPECT_THAT(Values("0..2+1"), ElementsAre("0", "1", "2"));
  // The second end only if a step meets it.
  EXPECT_THAT(Values("3..20 x3"), ElementsAre("3", "9"));
  EXPECT_THAT(Values("3..10 +4"), ElementsAre("3", "7"));
  EXPECT_THAT(Values("5..5 x2"), ElementsAre("5"));
}

TEST(SweepRangeTest, DecimalsAndQuantities) {
  EXPECT_THAT(Values("0.5..1 +0.25"), ElementsAre("0.5", "0.75", "1"));
  EXPECT_THAT(Values("0.05..0.5 x3"), ElementsAre("0.05", "0.15", "0.45"));
  EXPECT_THAT(Values("5 MiB..100 MiB x2"),
              ElementsAre("5 MiB", "10 MiB", "20 MiB", "40 MiB", "80 MiB"));
  EXPECT_THAT(Values("512KiB..2MiB x2"), ElementsAre("512 KiB", "1 MiB", "2 MiB"));
  EXPECT_THAT(Values("0 B..2 MiB +1 MiB"), ElementsAre("0 B", "1 MiB", "2 MiB"));
  EXPECT_THAT(Values("1 us..1.5 us +250 ns"), ElementsAre("1 us", "1250 ns", "1500 ns"));
  EXPECT_THAT(Values("25 GB/s..100 GB/s x2"), ElementsAre("25 GB/s", "50 GB/s", "100 GB/s"));
}

TEST(SweepRangeTest, ValuesThatAreNoRanges) {
  for (const char* text : {"1", "25 MiB", "../models/gpt2.yaml", "a..b x2", "5/../b.yaml",
                           "'1..4 x2'", "{a: 1}", "models/v1..2.yaml", "-1..4 x2"}) {
    EXPECT_FALSE(ReadRange(text).has_value()) << text;
  }
}

TEST(SweepRangeTest, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"64..1 x2", "the range is empty"},
      {"2 MiB..1 MiB +1 MiB", "the range is empty"},
      {"1..64", "the range has no step: '1..64'"},
      {"1..", "a range must have a start and an end"},
      {"..8 x2", "a range must have a start and an end"},
      {"1.. x2", "a range must have a start and an end"},
      {"1..8 x1", "the factor of a range must be an integer, at least 2"},
      {"1..8 x1.5", "the factor of a range must be an integer, at least 2"},
      {"1..8 x2 MiB", "the factor of a range must be an integer, at least 2"},
      {"1..8 +0", "the step of a range must not be zero"},
      {"0..8 x2", "a range with a factor cannot start at zero"},
      {"1..8 MiB x2", "the start and the end of a range have different units"},
      {"1 MiB..8 MiB +2", "the step and the ends of a range have different units"},
      {"1 MiB..8 us x2", "the start and the end of a range have different units"},
      {"1 XiB..8 XiB +1 XiB", "with a unit: '1 XiB'"},
      {"1..8 +", "the range has no step"},
      {"1..8x", "the range has no step"},
      {"8..1", "the range has no step"},
      {"1..64 *2", "the end of a range is not a number: '64 *2'"},
      {"1..64 -2", "the end of a range is not a number: '64 -2'"},
      {"01..8 x2", "with a unit: '01'"},
      {"1..1000001 +1", "the range has 1000001 values"},
      {"1..1000000000000 +1", "the range has 1000000000000 values"},
  };
  for (const auto& [text, message] : cases) {
    const auto range = ReadRange(text);
    ASSERT_TRUE(range.has_value()) << text;
    ASSERT_FALSE(range->has_value()) << text;
    EXPECT_THAT(range->error().message, HasSubstr(message)) << text;
    EXPECT_FALSE(range->error().hint.empty()) << text;
    EXPECT_TRUE(range->error().code.starts_with("sweep.")) << text;
  }
  // The most that a sweep may have is allowed.
  EXPECT_EQ(Values("1..1000000 +1").size(), 1'000'000U);
}

// A hint is itself a valid range.
TEST(SweepRangeTest, HintsSayWhatToWrite) {
  const auto hint = [](const char* text) { return ReadRange(text)->error().hint; };
  EXPECT_EQ(hint("1..8"),
            "write '1..8 x2' to double each value, or '1..8 +1' to add 1 to each value");
  EXPECT_EQ(hint("8..1"),
            "write '1..8 x2' to double each value, or '1..8 +1' to add 1 to each value");
  EXPECT_EQ(hint("1..64 x1"),
            "write '1..64 x2' to double each value, or '1..64 +1' to add 1 to each value");
  EXPECT_EQ(hint("1 MiB..8 MiB"),
            "write '1 MiB..8 MiB x2' to double each value, or '1 MiB..8 MiB +1 MiB' to add 1 MiB "
            "to each value");
  EXPECT_EQ(hint("64..1 x2"), "write the smaller end first: '1..64 x2'");
  EXPECT_EQ(hint("2.."), "write the end and the step, for example '2..16 x2'");
  EXPECT_EQ(hint("..64 x2"), "write the start of the range, for example '1..64 x2'");
}

// From the first end, each value is the previous one plus the step; the next would exceed the last
// end.
RC_GTEST_PROP(SweepRangeLaws, SumsGoFromEndToEnd, ()) {
  const auto from = *rc::gen::inRange<std::int64_t>(0, 10'000);
  const auto length = *rc::gen::inRange<std::int64_t>(0, 10'000);
  const auto step = *rc::gen::inRange<std::int64_t>(1, 3'000);
  const auto kib = [](std::int64_t count) { return ExactBytes(KiB(count)); };
  const auto values = Values(kib(from) + ".." + kib(from + length) + " +" + kib(step));
  RC_ASSERT(static_cast<std::int64_t>(values.size()) == length / step + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    RC_ASSERT(ParseBytes(values[i]).value() == KiB(from + static_cast<std::int64_t>(i) * step));
  }
}

RC_GTEST_PROP(SweepRangeLaws, ProductsGoFromEndToEnd, ()) {
  const auto from = *rc::gen::inRange<std::int64_t>(1, 1'000);
  const auto to = from + *rc::gen::inRange<std::int64_t>(0, 1'000'000'000);
  const auto factor = *rc::gen::inRange<std::int64_t>(2, 20);
  const auto values =
      Values(std::to_string(from) + ".." + std::to_string(to) + " x" + std::to_string(factor));
  std::int64_t expected = from;
  for (const std::string& value : values) {
    RC_ASSERT(value == std::to_string(expected));
    expected *= factor;
  }
  RC_ASSERT(expected > to && expected / factor <= to);
}

}  // namespace
}  // namespace stepcast::planner
