#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/kernel_time.h"

namespace stepcast::cost {
namespace {

TEST(SustainedClock, IsACubeRoot) {
  // (700 - 100) / 4800 = 1/8, whose cube root is a half.
  EXPECT_DOUBLE_EQ(SustainedClock({.idle = 100, .products = 4800}, 700), 0.5);
  // The allowed power suffices, or nothing is known.
  EXPECT_EQ(SustainedClock({.idle = 100, .products = 600}, 700), 1);
  EXPECT_EQ(SustainedClock({.idle = 100, .products = 4800}, 0), 1);
  EXPECT_EQ(SustainedClock({}, 700), 1);
}

// One second of products and one of memory traffic at 500 W. At a clock of 0.8 the products take
// 1.25 s and draw 100 + 1000 x 0.512 = 612 W; the mean is (1.25 x 612 + 500) / 2.25 = 562.2 W.
TEST(ArithmeticLimit, HoldsTheMeanOverKernels) {
  const calibration::PowerDraw power{.idle = 100, .products = 1000, .memory = 500};
  const MicroBatchDraw mixed{.arithmetic = 1, .at_best = 1, .other = 1};
  EXPECT_NEAR(ArithmeticLimit(power, 562.22, mixed), 612, 0.01);
  EXPECT_NEAR(SustainedClock(power, ArithmeticLimit(power, 562.22, mixed)), 0.8, 1e-5);
  // (1100 + 500) / 2 are 800: the clock holds.
  EXPECT_EQ(SustainedClock(power, ArithmeticLimit(power, 900, mixed)), 1);
  // Products at half of the best rate draw 100 + 500 at full clock, 550 W on average with traffic.
  const MicroBatchDraw slow{.arithmetic = 1, .at_best = 0.5, .other = 1};
  EXPECT_NEAR(ArithmeticLimit(power, 550, slow), 600, 1e-9);
}

TEST(ArithmeticLimit, IsTheBoardsWhereNothingIsSpared) {
  const MicroBatchDraw mixed{.arithmetic = 1, .at_best = 1, .other = 1};
  EXPECT_EQ(ArithmeticLimit({.idle = 100, .products = 1000}, 700, mixed), 700);
  const calibration::PowerDraw power{.idle = 100, .products = 1000, .memory = 500};
  EXPECT_EQ(ArithmeticLimit(power, 500, mixed), 500);
  EXPECT_EQ(ArithmeticLimit(power, 400, mixed), 400);
  EXPECT_EQ(ArithmeticLimit(power, 0, mixed), 0);
  EXPECT_EQ(ArithmeticLimit(power, 700, {}), 700);
  EXPECT_EQ(ArithmeticLimit(power, 700, {.arithmetic = 1, .at_best = 1, .other = 0}), 700);
}

RC_GTEST_PROP(ArithmeticLimit, KeepsTheMeanAndMakesNothingFasterSlower, ()) {
  const auto number = [](int from, int to) {
    return static_cast<double>(*rc::gen::inRange(from, to));
  };
  calibration::PowerDraw power{.idle = number(0, 200), .products = number(1, 3000)};
  power.memory = power.idle + number(1, 600);
  const double limit = power.idle + number(10, 1200);
  MicroBatchDraw draw{.arithmetic = number(1, 1000), .at_best = 0, .other = number(0, 1000)};
  const double part = number(1, 101) / 100;
  draw.at_best = draw.arithmetic * part;
  const auto clock = [&](double watts, const MicroBatchDraw& of) {
    return SustainedClock({.idle = power.idle, .products = power.products * part},
                          ArithmeticLimit(power, watts, of));
  };
  const auto time = [&](const MicroBatchDraw& of) {
    return of.arithmetic / clock(limit, of) + of.other;
  };
  const double held = clock(limit, draw);
  if (held > 0.11) {  // below, SustainedClock knows no less
    const double mean =
        (power.idle * draw.arithmetic / held + power.products * draw.at_best * held * held +
         std::min(power.memory, limit) * draw.other) /
        time(draw);
    RC_ASSERT(mean <= limit * (1 + 1e-9));
    if (held < 1) RC_ASSERT(mean >= limit * (1 - 1e-9));
  }
  // More power never slows anything, nor does faster memory, though products then run slower.
  RC_ASSERT(clock(limit + 10, draw) >= held * (1 - 1e-12));
  MicroBatchDraw faster = draw;
  faster.other /= 2;
  RC_ASSERT(time(faster) <= time(draw) * (1 + 1e-12));
}

}  // namespace
}  // namespace stepcast::cost
