// A step of few micro-batches can replace one of many (src/forecast/shorter_step.h). Rows computed
// in that way are compared with whole simulations, for random plans with many micro-batches.
// STEPCAST_SCENARIOS is their number (default 300), and STEPCAST_SEED the first seed.

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/report/answers.h"
#include "src/scenario/load.h"
#include "tests/property/any_plan.h"

namespace stepcast {
namespace {

void ExpectSame(const forecast::MemoryForecast& row, const forecast::MemoryForecast& whole,
                std::uint64_t seed) {
  EXPECT_EQ(row.peak, whole.peak) << "seed " << seed;
  EXPECT_EQ(row.at_peak, whole.at_peak) << "seed " << seed;
  EXPECT_EQ(row.reserved, whole.reserved) << "seed " << seed;
  EXPECT_EQ(row.fits, whole.fits) << "seed " << seed;
}

TEST(ShorterStep, SaysWhatTheLongerOneDoes) {
  const std::uint64_t wanted = NumberFrom("STEPCAST_SCENARIOS", 300);
  scenario::InputCache cache;
  forecast::Forecaster forecaster;
  std::uint64_t tried = 0, shortened = 0;
  for (std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1); tried < wanted; ++seed) {
    PlanText plan = PlanOf(seed);
    // Whole groups of interleaved micro-batches.
    plan.settings.push_back(fmt::format("training.gradient_accumulation={}", 24 + 8 * (seed % 9)));
    const auto scenario = scenario::LoadText(plan.scenario, "plan.yaml", plan.settings, cache);
    if (!scenario) continue;
    SayWhenItEnds(plan);
    const auto whole = forecast::Simulate(*scenario);
    if (!whole) continue;
    const auto row = forecaster.Evaluate(*scenario, forecast::Detail::kRange);
    ASSERT_TRUE(row.has_value()) << Format(row.error());
    ++tried;
    const auto figures = forecast::FiguresOf(*scenario);
    ASSERT_TRUE(figures.has_value()) << Format(figures.error());
    EXPECT_EQ(report::SimulateJson(*scenario, *figures, 0),
              report::SimulateJson(*scenario, whole->forecast, 0))
        << "seed " << seed;
    const forecast::Forecast& told = whole->forecast;
    EXPECT_EQ(row->step_time, told.step_time) << "seed " << seed;
    EXPECT_EQ(row->step_time_range.has_value(), told.step_time_range.has_value());
    if (std::exchange(shortened, forecaster.shortened()) != forecaster.shortened() &&
        row->step_time_range && told.step_time_range) {
      EXPECT_EQ(row->step_time_range->low, told.step_time_range->low) << "seed " << seed;
      EXPECT_EQ(row->step_time_range->high, told.step_time_range->high) << "seed " << seed;
    }
    ExpectSame(row->memory, told.memory, seed);
    ASSERT_EQ(row->classes.size(), told.classes.size()) << "seed " << seed;
    for (std::size_t i = 0; i < told.classes.size(); ++i) {
      ExpectSame(row->classes[i].memory, told.classes[i].memory, seed);
    }
  }
  RecordProperty("plans", fmt::format("{}", tried));
  RecordProperty("by_shorter_steps", fmt::format("{}", forecaster.shortened()));
  fmt::print("{} plans, {} of them by a shorter step\n", tried, forecaster.shortened());
  // Three of five steps repeat themselves and have enough micro-batches.
  EXPECT_GT(forecaster.shortened() * 3, tried);
}

}  // namespace
}  // namespace stepcast
