#include "src/planner/sweep.h"

#include <atomic>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::planner {
namespace {

SweepGrid Grid(std::vector<SweepAxis> axes) { return SweepGrid::Of(std::move(axes)).value(); }

std::vector<std::string> Numbers(int count) {
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) values.push_back(std::to_string(i));
  return values;
}

std::int64_t Number(const std::string& text) {
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Step time a + 10 b milliseconds, illegal if a = 2, too large if b = 1.
Result<forecast::Forecast> Evaluated(const Settings& settings) {
  const std::int64_t a = Number(settings[0].second);
  const std::int64_t b = Number(settings[1].second);
  if (a == 2) {
    return tl::unexpected(
        Diagnostics{{"test.two", {"s.yaml", 3, 1}, "a must not be 2: '2'", "take another"}});
  }
  forecast::Forecast forecast;
  forecast.step_time = Milliseconds(a + 10 * b);
  const double seconds = forecast.step_time.seconds();
  if (seconds > 0) forecast.tokens_per_second = static_cast<double>(1000 * a + 1) / seconds;
  forecast.tokens_per_second_per_gpu = static_cast<double>(100 * a + b);
  forecast.memory.peak = GiB(a);
  forecast.memory.reserved = GiB(a + 1);
  forecast.memory.outside = GiB(1);
  forecast.memory.capacity = GiB(2);
  forecast.memory.fits = b != 1;
  return forecast;
}

std::vector<SweepRow> SweepOn(int threads, const SweepGrid& grid, const Progress& progress = {}) {
  const auto pool = MakeThreadPool(WorkOf([](const Settings& settings) {
                                     auto forecast = Evaluated(settings);
                                     return forecast ? RowOf(*forecast, {}, true)
                                                     : RowOf(std::move(forecast.error()));
                                   }),
                                   threads);
  return Sweep(grid, *pool, nullptr, progress).value().rows;
}

TEST(SweepTest, RowsHoldWhatTheirCombinationGives) {
  const std::vector<SweepRow> rows = SweepOn(2, Grid({{"a", {"1", "2"}}, {"b", {"0", "1"}}}));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].status, RowStatus::kOk);
  EXPECT_EQ(rows[0].step_time, Milliseconds(1));
  EXPECT_EQ(rows[0].tokens, 1001);
  EXPECT_EQ(rows[0].tokens_per_second_per_gpu, 100.0);
  EXPECT_EQ(rows[0].peak, GiB(1));
  EXPECT_EQ(rows[0].needed(), GiB(3));  // 2 reserved + 1 outside
  EXPECT_EQ(rows[0].capacity, GiB(2));
  EXPECT_EQ(rows[0].over, Bytes(0));
  EXPECT_EQ(rows[1].status, RowStatus::kDoesNotFit);
  EXPECT_EQ(rows[1].step_time, Milliseconds(11));
  EXPECT_EQ(rows[1].over, GiB(1));  // 2 reserved + 1 outside - 2
  EXPECT_EQ(rows[2].status, RowStatus::kIllegal);
  EXPECT_EQ(rows[2].faults[0].message, "a must not be 2: '2'");
}

TEST(SweepTest, StepsOfUnequalTokensAreNoticedAmongLegalRows) {
  EXPECT_FALSE(UnequalTokens(SweepOn(1, Grid({{"a", {"1", "2"}}, {"b", {"1", "3"}}}))));
  EXPECT_TRUE(UnequalTokens(SweepOn(1, Grid({{"a", {"1", "3"}}, {"b", {"1"}}}))));
}

TEST(SweepTest, TheOrderDoesNotDependOnTheNumberOfThreads) {
  const SweepGrid grid = Grid({{"a", Numbers(40)}, {"b", Numbers(50)}});
  const auto times = [&](int threads) {
    std::vector<Time> result;
    for (const SweepRow& row : SweepOn(threads, grid)) result.push_back(row.step_time);
    return result;
  };
  const std::vector<Time> one = times(1);
  ASSERT_EQ(one.size(), 2000U);
  EXPECT_EQ(one[51], Milliseconds(1 + 10 * 1));
  EXPECT_EQ(one, times(8));
}

TEST(SweepTest, ProgressCountsEveryRowAndIsNotConcurrent) {
  std::int64_t calls = 0;
  std::atomic<int> inside{0};
  bool right = true;
  SweepOn(4, Grid({{"a", Numbers(40)}, {"b", Numbers(50)}}),
          [&](std::int64_t done, std::int64_t known) {
            if (++inside != 1 || done != ++calls || known != 0) right = false;
            --inside;
          });
  EXPECT_TRUE(right);
  EXPECT_EQ(calls, 2000);
}

// Rows returned by another rank or a store equal the forecast ones, to the bit.
RC_GTEST_PROP(SweepLaws, RowsSurviveAsBytes, ()) {
  SweepRow row;
  row.status = *rc::gen::element(RowStatus::kOk, RowStatus::kIllegal, RowStatus::kDoesNotFit);
  if (row.status == RowStatus::kIllegal) {
    const auto texts = *rc::gen::arbitrary<std::vector<std::string>>();
    for (const std::string& text : texts) {
      row.faults.push_back(
          {"test." + text, {text, *rc::gen::inRange(0, 1000), 2}, text, "h" + text});
    }
  } else {
    row.step_time = Picoseconds(*rc::gen::arbitrary<std::int64_t>());
    row.tokens_per_second_per_gpu = *rc::gen::arbitrary<double>();
    row.peak = Bytes(*rc::gen::nonNegative<std::int64_t>());
    row.reserved = Bytes(*rc::gen::nonNegative<std::int64_t>());
    row.outside = Bytes(*rc::gen::nonNegative<std::int64_t>());
    row.capacity = Bytes(*rc::gen::nonNegative<std::int64_t>());
    row.over = Bytes(*rc::gen::arbitrary<std::int64_t>());
  }
  const std::string bytes = ToBytes(row);
  const auto back = ToSweepRow(bytes);
  RC_ASSERT(back.has_value());
  RC_ASSERT(back->status == row.status);
  RC_ASSERT(back->step_time == row.step_time);
  RC_ASSERT(back->tokens_per_second_per_gpu == row.tokens_per_second_per_gpu);
  RC_ASSERT(back->peak == row.peak);
  RC_ASSERT(back->reserved == row.reserved);
  RC_ASSERT(back->outside == row.outside);
  RC_ASSERT(back->capacity == row.capacity);
  RC_ASSERT(back->over == row.over);
  RC_ASSERT(Format(back->faults) == Format(row.faults));
  RC_ASSERT(!ToSweepRow(bytes + "x").has_value());
  RC_ASSERT(!ToSweepRow(bytes.substr(0, bytes.size() - 1)).has_value());
}

TEST(SweepTest, CommonFaultsAreThoseOfEveryRow) {
  const Diagnostic everywhere{"input.unknown-key", {"s.yaml", 3, 1}, "unknown key: 'x'", ""};
  const Diagnostic here{"plan.stage", {"--vary a=1", 1, 1}, "no stage: '1'", ""};
  Diagnostic elsewhere = everywhere;
  elsewhere.location.line = 4;
  const auto row = [](Diagnostics faults) {
    SweepRow result;
    result.faults = std::move(faults);
    return result;
  };
  const auto codes = [](const Diagnostics& faults) {
    std::vector<std::string> result;
    for (const Diagnostic& fault : faults) result.push_back(fault.code);
    return result;
  };
  EXPECT_THAT(codes(CommonFaults({row({here, everywhere}), row({everywhere})})),
              testing::ElementsAre("input.unknown-key"));
  EXPECT_TRUE(CommonFaults({row({everywhere}), row({elsewhere})}).empty());
  EXPECT_TRUE(CommonFaults({row({everywhere}), row({})}).empty());
  EXPECT_TRUE(CommonFaults({}).empty());
}

}  // namespace
}  // namespace stepcast::planner
