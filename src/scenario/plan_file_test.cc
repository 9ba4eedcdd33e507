#include "src/scenario/plan_file.h"

#include <string>

#include "gtest/gtest.h"
#include "src/scenario/document.h"
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

// Expects one mistake in a plan, by code and line.
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

// The error names the kind of file once, instead of listing all missing keys.
TEST(ScenarioOfPlan, NamesAFileThatIsNoScenario) {
  const auto told = [](const char* text) {
    Diagnostics diagnostics;
    const auto document = ParseDocument(text, "f.json", diagnostics);
    EXPECT_TRUE(document.has_value());
    EXPECT_FALSE(ScenarioOfPlan(*document, diagnostics).has_value()) << text;
    EXPECT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics.at(0).code, "file.not-a-scenario");
    return diagnostics.at(0).message;
  };
  EXPECT_EQ(told("{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3}}"),
            "this file is a configuration of DeepSpeed, not a scenario: the file has the key "
            "'zero_optimization'");
  EXPECT_EQ(told("{\"model_type\": \"llama\", \"hidden_size\": 64}"),
            "this file is a config.json of Hugging Face, not a scenario: the file has the key "
            "'model_type'");
  EXPECT_EQ(told("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"),
            "this file is a configuration of accelerate, not a scenario: the file has the key "
            "'distributed_type'");
  EXPECT_EQ(told("model: gpt2\nper_device_train_batch_size: 2\n"),
            "this file is a configuration of Hugging Face's Trainer, not a scenario: the file has "
            "the key 'per_device_train_batch_size'");
  EXPECT_EQ(told("kind: transformer\nhidden_size: 64\n"),
            "this file is a model file, not a scenario: the file has the key 'hidden_size'");
  EXPECT_EQ(told("name: DGX\nnode: {gpu: h100-sxm}\n"),
            "this file is a topology, not a scenario: the file has the key 'node'");
  // A scenario file without a version is still taken for a scenario.
  Diagnostics diagnostics;
  const auto document = ParseDocument("training: {}\nlayers: 1\n", "s.yaml", diagnostics);
  EXPECT_TRUE(ScenarioOfPlan(*document, diagnostics).has_value());
}

}  // namespace
}  // namespace stepcast::scenario
