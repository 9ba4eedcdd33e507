#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/calibrate/session.h"

namespace stepcast::calibrate {
namespace {

SizePlan PowersOfTwo(std::int64_t from, std::int64_t to, double longest = 100) {
  SizePlan plan;
  for (std::int64_t size = from; size <= to; size *= 2) plan.sizes.push_back(size);
  plan.longest = longest;
  return plan;
}

struct Walked {
  std::vector<std::int64_t> order;  // as measured
  double spent = 0;
  bool briefly = false;  // ever
};

// Follows the plan with times from `law`, each size with the least number of runs.
Walked Walk(const SizePlan& plan, std::size_t least, double budget,
            const std::function<double(std::int64_t)>& law) {
  Walked walked;
  MeasuredSizes measured;
  while (true) {
    const NextSizes next = Next(plan, least, measured, budget - walked.spent);
    if (next.sizes.empty()) break;
    walked.briefly = walked.briefly || next.briefly;
    walked.spent += plan.program;
    for (const std::int64_t size : next.sizes) {
      const double time = law(size);
      const double runs = static_cast<double>(LeastRuns(least, next.expected, next.briefly));
      walked.order.push_back(size);
      walked.spent += time * (runs + (next.expected < kNeedsNoWarmup ? 1 : 0));
      measured.emplace_back(size, time);
    }
    std::sort(measured.begin(), measured.end());
  }
  return walked;
}

TEST(SizePlanTest, GoesToBothEndsAndThenIntoTheMiddle) {
  const Walked walked = Walk(PowersOfTwo(1, 64), 5, 1000, [](std::int64_t) { return 1e-3; });
  // 1 and 2 give the rate; 64 is the other end. 8 and 16 are equally near the middle of 2 and 64,
  // sqrt(128) = 11.3, and the smaller one comes first; then 8 to 64 is the widest gap.
  EXPECT_EQ(walked.order, (std::vector<std::int64_t>{1, 2, 64, 8, 16, 4, 32}));
  EXPECT_FALSE(walked.briefly);
}

// A second per unit, and 40 s: 1 and 2 take 6 x 3 s. Of the remaining 22 s, 4 and 8 need 12 s, run
// once; with 16 it would be 28 s.
TEST(SizePlanTest, TakesTheLargestBelowWhichAllFit) {
  const auto law = [](std::int64_t size) { return static_cast<double>(size) * 1.0001; };
  const Walked walked = Walk(PowersOfTwo(1, 1024), 5, 40, law);
  EXPECT_EQ(walked.order, (std::vector<std::int64_t>{1, 2, 8, 4}));
  EXPECT_TRUE(walked.briefly);
}

TEST(SizePlanTest, LeavesOutWhatTakesTooLong) {
  const auto law = [](std::int64_t size) { return static_cast<double>(size); };
  const Walked walked = Walk(PowersOfTwo(1, 1024, 20), 5, 1e6, law);
  EXPECT_EQ(*std::max_element(walked.order.begin(), walked.order.end()), 16);
  EXPECT_EQ(walked.order.size(), 5u);
}

// Above 64 everything takes twenty times as long as the small sizes predict; the remaining time
// still goes to the middle.
TEST(SizePlanTest, CoversEvenlyWhenTheEndTookLonger) {
  const auto law = [](std::int64_t size) {
    return static_cast<double>(size) * (size > 64 ? 0.02 : 0.001);
  };
  const Walked walked = Walk(PowersOfTwo(1, 1024), 5, 60, law);
  ASSERT_GE(walked.order.size(), 6u);
  EXPECT_EQ(walked.order[2], 1024);
  EXPECT_EQ(walked.order[3], 32);
}

TEST(SizePlanTest, LongOperationsAreRunLess) {
  EXPECT_EQ(LeastRuns(7, 0.1, false), 7u);
  EXPECT_EQ(LeastRuns(7, 0.5, false), 3u);
  EXPECT_EQ(LeastRuns(7, 5, false), 2u);
  EXPECT_EQ(LeastRuns(7, 5, true), 1u);
}

// For any start-up cost, rate and time, no size occurs twice. If times are linear, the plan keeps
// to its time, except for the first sizes, which are always measured.
RC_GTEST_PROP(SizePlanTest, KeepsToItsTime, ()) {
  const double start = 1e-6 * *rc::gen::inRange(0, 1000);
  const double rate = 1e-6 * *rc::gen::inRange(1, 1000);
  const double budget = 0.1 * *rc::gen::inRange(1, 1000);
  const auto law = [&](std::int64_t size) { return start + rate * static_cast<double>(size); };
  SizePlan plan = PowersOfTwo(1, 1 << 16);
  plan.program = 0.01 * *rc::gen::inRange(0, 20);
  const Walked walked = Walk(plan, 5, budget, law);
  std::vector<std::int64_t> sorted = walked.order;
  std::sort(sorted.begin(), sorted.end());
  RC_ASSERT(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  RC_ASSERT(walked.spent <= std::max(budget, 12 * law(2) + plan.program));
  // Sizes skipped below the largest no longer fitted, even briefly. A size just below a second is
  // run more often than a longer one, and costs more.
  for (const std::int64_t size : plan.sizes) {
    if (size > sorted.back()) break;
    if (std::binary_search(sorted.begin(), sorted.end(), size)) continue;
    const double runs = static_cast<double>(LeastRuns(5, law(size), true));
    const double cost = law(size) * (runs + (law(size) < kNeedsNoWarmup ? 1 : 0));
    RC_ASSERT(walked.spent + plan.program + cost > budget);
  }
}

}  // namespace
}  // namespace stepcast::calibrate
