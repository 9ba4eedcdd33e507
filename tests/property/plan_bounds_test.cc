// No plan's forecast is better than the bounds by which searches skip plans (src/planner/bounds.h),
// for random plans with all axes, including experts. STEPCAST_SCENARIOS is their number (default
// 300), and STEPCAST_SEED the first seed.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/planner/bounds.h"
#include "src/scenario/load.h"
#include "tests/property/any_plan.h"

namespace stepcast {
namespace {

// Parts of a bound that exceed the forecast, a sentence each.
std::string Above(const char* name, const planner::Bound& bound,
                  const forecast::Forecast& forecast) {
  std::string text;
  const auto note = [&](const char* what, std::int64_t of_bound, std::int64_t of_forecast) {
    if (of_bound <= of_forecast) return;
    text += fmt::format("{}: {} of {}, forecast {}\n", name, what, of_bound, of_forecast);
  };
  const forecast::MemoryForecast& memory = forecast.memory;
  // The bound is for the simulated time, before the learned correction.
  note("step time in ps", bound.step_time.picoseconds(),
       (forecast.step_time - forecast.time.learned).picoseconds());
  note("peak in bytes", bound.memory.count(), memory.peak.count());
  note("needed bytes", bound.needed.count(), (memory.reserved + memory.outside).count());
  // In thousandths, like forecasts.
  note("chance to miss", std::llround(1000 * (1 - bound.fit_probability)),
       std::llround(1000 * (1 - memory.fit_probability)));
  if (!bound.fits && memory.fits) text += fmt::format("{}: does not fit, and does\n", name);
  return text;
}

TEST(PlanBounds, AreNotAboveForecasts) {
  const std::uint64_t wanted = NumberFrom("STEPCAST_SCENARIOS", 300);
  scenario::InputCache cache;
  forecast::Forecaster forecaster;
  planner::Bounds bounds;
  std::uint64_t tried = 0, experts = 0, several_axes = 0;
  double tightness = 0;
  for (std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1); tried < wanted; ++seed) {
    const PlanText plan = PlanOf(seed);
    SayWhenItEnds(plan);
    const auto scenario = scenario::LoadText(plan.scenario, "plan.yaml", plan.settings, cache);
    if (!scenario) continue;
    const auto forecast = forecaster.Evaluate(*scenario);
    if (!forecast) continue;
    ++tried;
    experts += scenario->plan.parallelism.expert > 1 ? 1 : 0;
    several_axes += plan.axes > 1 ? 1 : 0;
    std::string faults;
    const auto look = [&](const char* name, const Result<planner::Bound>& bound) {
      faults += bound ? Above(name, *bound, *forecast) : std::string(name) + ": no bound\n";
    };
    const auto program = bounds.OfProgram(*scenario);
    look("of the program", program);
    look("the first", bounds.First(*scenario));
    EXPECT_EQ(faults, "") << "seed " << seed << "\n" << Said(plan);
    if (program) tightness += program->step_time / forecast->step_time;
  }
  fmt::print("{} plans, {} with several axes, {} with experts; bounds are {:.3f} of forecasts\n",
             tried, several_axes, experts, tightness / static_cast<double>(tried));
  EXPECT_GT(several_axes * 40, tried);
  EXPECT_GT(experts, 0U);
  EXPECT_GT(tightness / static_cast<double>(tried), 0.7);
}

}  // namespace
}  // namespace stepcast
