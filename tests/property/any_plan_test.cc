// Every plan that the rules accept lowers to programs without races and leaks, which do not wait
// for one another in a circle, and has a forecast.

#include "tests/property/any_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/cost/price.h"
#include "src/forecast/forecast.h"
#include "src/forecast/priced_class.h"
#include "src/forecast/simulated_ranks.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "src/simulate/simulate.h"

namespace stepcast {
namespace {

// What is wrong with the scenario's programs, a sentence each.
std::vector<std::string> FaultsOf(const scenario::Scenario& scenario) {
  std::vector<std::string> faults;
  std::vector<forecast::PricedClass> classes;
  for (lowering::LoweredClass& own : lowering::Lower(scenario)) {
    for (const program::Violation& violation : program::Validate(own.program)) {
      faults.push_back(violation.message);
    }
    auto prices = cost::Price(own.program, scenario);
    if (!prices) return faults;  // a profile that says nothing of such kernels
    classes.push_back({.lowered = std::move(own), .prices = std::move(*prices), .kind = 0});
  }
  constexpr int kSteps = 2;
  const auto ranks = forecast::SimulatedRanksOf(scenario, classes, kSteps);
  if (!ranks || !faults.empty()) return faults;
  const auto timelines = simulate::Simulate(
      ranks->classes, {.steps = kSteps, .recording = simulate::Recording::kNone});
  if (!timelines) faults = timelines.error().blocked;
  return faults;
}

RC_GTEST_PROP(AnyPlan, LowersToProgramsThatRun, ()) {
  const PlanText plan = AnyPlan();
  SayWhenItEnds(plan);
  static scenario::InputCache cache;
  const auto scenario = scenario::LoadText(plan.scenario, "plan.yaml", plan.settings, cache);
  RC_PRE(scenario.has_value());
  RC_LOG() << Said(plan);
  RC_ASSERT(FaultsOf(*scenario) == std::vector<std::string>());
  static forecast::Forecaster forecaster;
  const auto forecast = forecaster.EvaluateWithRange(*scenario);
  RC_PRE(forecast.has_value());  // a profile that says nothing of such kernels
  RC_ASSERT(forecast->step_time > Time());
  // A row of a sweep goes through less of its steps.
  const auto whole = forecast::Simulate(*scenario);
  RC_ASSERT(whole.has_value());
  RC_ASSERT(whole->forecast.step_time == forecast->step_time);
  RC_ASSERT(whole->forecast.memory.peak == forecast->memory.peak);
  RC_ASSERT(whole->forecast.memory.reserved == forecast->memory.reserved);
}

}  // namespace
}  // namespace stepcast
