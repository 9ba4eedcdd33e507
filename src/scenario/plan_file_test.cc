#include "src/scenario/plan_file.h"

#include <string>

#include "gtest/gtest.h"
#include "src/scenario/load.h"
#include "src/scenario/resolved_scenario.h"

namespace stepcast::scenario {
namespace {

constexpr const char* kScenario = R"({stepcast: 1, name: two,
  model: {kind: layers, layers: [{name: l, parameters: [1024], forward: 1 ms, backward: 2 ms,
    activation: 0 B}], optimizer_step: 0 ms},
  cluster: {topology: {kind: flat, devices: 2, memory: 1 GiB,
    link: {latency: 1 us, bandwidth: 1 GB/s}}},
  training: {sequence_length: 1, micro_batch_size: 1, global_batch_size: 4, precision: fp32,
    optimizer: sgd},
  data_parallel: {zero_stage: 0, framework: ddp}})";

Result<Scenario> Read(const std::string& text, const std::vector<std::string>& set = {}) {
  InputCache cache;
  return LoadText(text, "plan.json", set, cache);
}

TEST(PlanFile, HoldsTheWholeScenario) {
  const auto scenario = Read(kScenario);
  ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
  const std::string plan = ToJson(PlanOf(scenario->resolved));
  const auto again = Read(plan);
  ASSERT_TRUE(again.has_value()) << Format(again.error());
  EXPECT_EQ(ToJson(again->resolved), ToJson(scenario->resolved));
  EXPECT_EQ(again->name, "two");
}

TEST(PlanFile, TakesOverridesByTheScenariosKeys) {
  const auto scenario = Read(kScenario);
  ASSERT_TRUE(scenario.has_value());
  const auto changed =
      Read(ToJson(PlanOf(scenario->resolved)), {"training.gradient_accumulation=5"});
  ASSERT_TRUE(changed.has_value()) << Format(changed.error());
  EXPECT_EQ(changed->plan.training.gradient_accumulation, 5);
}

// What is wrong with a plan, by code and line.
void ExpectFault(const std::string& text, const std::string& code, int line) {
  const auto scenario = Read(text);
  ASSERT_FALSE(scenario.has_value()) << text;
  ASSERT_EQ(scenario.error().size(), 1u) << Format(scenario.error());
  EXPECT_EQ(scenario.error()[0].code, code);
  EXPECT_EQ(scenario.error()[0].location.line, line);
}

TEST(PlanFile, RefusesOtherVersionsAndKeys) {
  ExpectFault("{\"stepcast_plan\":\n2, \"later\": 1}", "plan.version", 2);
  ExpectFault("{\"stepcast_plan\": one, \"scenario\": {}}", "input.not-an-integer", 1);
  ExpectFault("{\"stepcast_plan\": 1}", "input.missing-key", 1);
  ExpectFault(
      std::string("{\"stepcast_plan\": 1, \"scenario\": ") + kScenario + ",\n\"forecast\": {}}",
      "input.unknown-key", 9);
  ExpectFault("{\"stepcast_plan\": 1, \"scenario\": 3}", "input.wrong-kind", 1);
}

}  // namespace
}  // namespace stepcast::scenario
