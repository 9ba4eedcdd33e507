#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/long_run.h"

namespace stepcast::forecast {
namespace {

constexpr double kHour = 3600;

double AnyOf(int least, int end) { return *rc::gen::inRange(least, end); }  // [least, end)

// A job that fails every 10 h: work of an hour, a save of 36 s, recovery of 6 min. Cycles of 3,636
// s take exp(0.01) (exp(0.101) - 1) x 36,000 s = 3,864.4 s.
TEST(EffectiveTimeTest, IsDalysFormula) {
  const TimeShares shares = SharesOf(kHour, {1 / (10 * kHour), 360}, {36, 0});
  EXPECT_NEAR(shares.work, 3600 / 3864.41, 1e-5);
  EXPECT_NEAR(shares.saving, 36 / 3864.41, 1e-5);
  EXPECT_NEAR(shares.recovery, 1 - std::exp(-0.01), 1e-12);
  EXPECT_NEAR(shares.work + shares.saving + shares.recovery + shares.rework, 1, 1e-12);
}

TEST(EffectiveTimeTest, WithoutFailuresSavesAloneCost) {
  EXPECT_DOUBLE_EQ(SharesOf(90, {}, {10, 0}).work, 0.9);
  EXPECT_DOUBLE_EQ(SharesOf(90, {}, {10, 0}).rework, 0);
  EXPECT_DOUBLE_EQ(BestInterval({}, {10, 0}, 500), 500);
}

TEST(EffectiveTimeTest, ASaveWaitsForTheOneBefore) {
  EXPECT_DOUBLE_EQ(SharesOf(10, {}, {0, 40}).work, 0.25);
  EXPECT_DOUBLE_EQ(BestInterval({1 / kHour, 0}, {0, 40}, 1e9), 40);
  // Writing takes two mean times between failures. A shorter interval loses less work.
  EXPECT_DOUBLE_EQ(BestInterval({1 / kHour, 0}, {0, 2 * kHour}, 1e9), kHour);
}

RC_GTEST_PROP(EffectiveTimeTest, NoIntervalIsBetterThanTheBest, ()) {
  const Failures failures{1 / AnyOf(1'000, 100'000), AnyOf(0, 10'000)};
  const CheckpointCost cost{AnyOf(0, 1'000), AnyOf(0, 50'000)};
  const double best =
      SharesOf(std::max(1.0, BestInterval(failures, cost, 1e12)), failures, cost).work;
  RC_ASSERT(SharesOf(AnyOf(1, 200'000), failures, cost).work <= best * (1 + 1e-9));
}

// Plays the process with drawn failures until `commits` checkpoints can be used.
double PlayedWork(double interval, const Failures& failures, const CheckpointCost& cost,
                  int commits) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> until_failure(failures.rate);
  const double cycle = std::max(interval, cost.background) + cost.blocking;
  double now = 0, next = until_failure(random);
  // After a usable checkpoint `background` seconds of the next cycle have passed already.
  double left = cycle;
  for (int done = 0; done < commits;) {
    if (now + left <= next) {
      now += left;
      left = cycle;
      ++done;
    } else {
      now = next;
      next = now + until_failure(random);
      // No earlier save is being written.
      left = failures.recovery + interval + cost.blocking + cost.background;
    }
  }
  return commits * interval / now;
}

// Half a million checkpoints: the mean of so many cycles is off by a fraction of a per mille.
TEST(EffectiveTimeTest, IsWhatASimulationOfTheProcessFinds) {
  constexpr int kCommits = 500'000;
  for (const CheckpointCost cost :
       {CheckpointCost{40, 0}, CheckpointCost{2, 300}, CheckpointCost{10, 3000}}) {
    for (const double interval : {400.0, 1800.0, 7200.0}) {
      const Failures failures{1 / (2.8 * kHour), 700};
      const double work = SharesOf(interval, failures, cost).work;
      EXPECT_NEAR(PlayedWork(interval, failures, cost, kCommits) / work, 1, 0.003) << interval;
    }
  }
}

RC_GTEST_PROP(EffectiveTimeTest, MoreFailuresAndDearerOnesAreNeverBetter, ()) {
  const Failures failures{1 / AnyOf(1'000, 1'000'000), AnyOf(0, 10'000)};
  const CheckpointCost cost{AnyOf(0, 1'000), AnyOf(0, 2'000)};
  const double interval = AnyOf(1, 100'000);
  const double more = AnyOf(0, 5'000);
  const auto work = [&](const Failures& f, const CheckpointCost& c) {
    return SharesOf(interval, f, c).work;
  };
  const double own = work(failures, cost);
  constexpr double kRounding = 1 + 1e-12;
  RC_ASSERT(own <= 1);
  RC_ASSERT(work({failures.rate * (1 + more), failures.recovery}, cost) <= own * kRounding);
  RC_ASSERT(work({failures.rate, failures.recovery + more}, cost) <= own * kRounding);
  RC_ASSERT(work(failures, {cost.blocking + more, cost.background}) <= own * kRounding);
  RC_ASSERT(work(failures, {cost.blocking, cost.background + more}) <= own * kRounding);
}

// For saves of at most a twentieth of the mean time between failures. The best interval of a
// simulation is that of the exact formula.
RC_GTEST_PROP(EffectiveTimeTest, YoungsAndDalysIntervalsAreWithinAPerCentOfTheBest, ()) {
  const double mean = AnyOf(1'000, 1'000'000);
  const Failures failures{1 / mean, AnyOf(0, 10'000)};
  const CheckpointCost cost{mean * AnyOf(1, 50) / 1000, 0};
  const double best = SharesOf(BestInterval(failures, cost, 1e12), failures, cost).work;
  for (const double interval : {YoungInterval(failures, cost), DalyInterval(failures, cost)}) {
    const double work = SharesOf(interval, failures, cost).work;
    RC_ASSERT(work <= best * (1 + 1e-12));
    RC_ASSERT(work >= best * 0.99);
  }
}

}  // namespace
}  // namespace stepcast::forecast
