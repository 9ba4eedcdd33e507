#include "src/study/traced_rates.h"

#include <cmath>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

scenario::Scenario Gpt2() {
  scenario::InputCache cache;
  auto scenario = scenario::Load("scenarios/gpt2-ddp/scenario.yaml", {}, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

// The scenario's step with kernels that take `factor` times as long.
forecast::Run RunWith(const scenario::Scenario& scenario, double factor) {
  auto classes = forecast::PricedClassesOf(scenario);
  EXPECT_TRUE(classes.has_value());
  for (forecast::PricedClass& own : *classes) {
    for (cost::Demand& demand : own.prices.kernels) {
      for (Time* part : {&demand.latency, &demand.work}) {
        *part = Picoseconds(std::llround(static_cast<double>(part->picoseconds()) * factor));
      }
    }
  }
  auto run = forecast::SimulateAt(scenario, *std::move(classes));
  EXPECT_TRUE(run.has_value());
  return *std::move(run);
}

scenario::Scenario With(scenario::Scenario scenario, const calibration::Calibration& sections) {
  calibration::Calibration profile = *scenario.calibration;
  profile.kernels = sections.kernels;
  profile.kernel_releases.clear();
  profile.collectives = sections.collectives;
  scenario.calibration = std::make_shared<const calibration::Calibration>(std::move(profile));
  return scenario;
}

TEST(TracedRatesTest, LearnsHowMuchLongerKernelsTake) {
  const scenario::Scenario scenario = Gpt2();
  const forecast::Run plain = RunWith(scenario, 1), slow = RunWith(scenario, 1.3);
  const TracedRates rates =
      LearnRates(scenario, plain, "test",
                 {.number = 2, .ranks = {validate::EventsOf(slow, slow.classes[0])}, .notes = {}});
  ASSERT_EQ(rates.report.rates.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(rates.report.rates[i].factor(), 1.3, 0.01) << rates.report.rates[i].part;
  }
  EXPECT_NEAR(rates.report.rates[3].factor(), 1, 0.01);  // launches
  EXPECT_EQ(rates.sections.provenance.back().first, "learned from");

  const forecast::Run learned = RunWith(With(scenario, rates.sections), 1);
  EXPECT_NEAR(learned.forecast.step_time / slow.forecast.step_time, 1, 0.02);
  const auto compute = [](const forecast::Run& run) {
    return run.forecast.time.phase[0] + run.forecast.time.phase[1];
  };
  EXPECT_NEAR(compute(learned) / compute(plain), 1.3, 0.03);
}

// Nothing is learned from the forecast's own step.
TEST(TracedRatesTest, TheForecastsOwnStepChangesNothing) {
  const scenario::Scenario scenario = Gpt2();
  const forecast::Run plain = RunWith(scenario, 1);
  const TracedRates rates = LearnRates(
      scenario, plain, "test",
      {.number = 2, .ranks = {validate::EventsOf(plain, plain.classes[0])}, .notes = {}});
  for (const report::LearnedRate& rate : rates.report.rates) EXPECT_EQ(rate.factor(), 1);
  EXPECT_FALSE(rates.report.tables.empty());
  const forecast::Run learned = RunWith(With(scenario, rates.sections), 1);
  EXPECT_NEAR(learned.forecast.step_time / plain.forecast.step_time, 1, 0.01);
}

}  // namespace
}  // namespace stepcast::study
