#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {
namespace {

std::vector<std::string> MistakesOf(const std::string& text) {
  Diagnostics diagnostics;
  const auto node = ParseDocument(text, "hosts.yaml", diagnostics);
  if (node) ReadFrameworkCosts(*node, diagnostics);
  std::vector<std::string> mistakes;
  for (const Diagnostic& diagnostic : diagnostics) {
    mistakes.push_back(std::to_string(diagnostic.location.line) + " " + diagnostic.code);
  }
  return mistakes;
}

TEST(FrameworkCostsFile, ReportsAllMistakes) {
  EXPECT_TRUE(
      MistakesOf("name: a\nhost: b\ndispatch:\n  ddp: {module: 1 us, autograd: 0 us}\n").empty());
  EXPECT_EQ(MistakesOf("name: a\nhost: b\ndispatch:\n  dpp: {module: 1 us, autograd: 1 us}\n"
                       "  fsdp1: {module: 1 s}\n"),
            (std::vector<std::string>{"5 calibration.implausible", "5 input.missing-key",
                                      "4 input.unknown-key"}));
}

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 2, precision: bf16,
           parameter_dtype: bf16, optimizer: adamw}
data_parallel: {zero_stage: 0, framework: megatron}
)";

plan::Training TrainingOf(const std::vector<std::string>& set) {
  InputCache cache;
  const auto scenario = LoadText(kScenario, "test", set, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return scenario->plan.training;
}

TEST(FrameworkCostsFile, CostsAreTheFrameworksOnEveryGpu) {
  const Dispatch megatron{.module = Microseconds(117), .autograd = Microseconds(36)};
  for (const char* topology : {"dgx-a100", "dgx-a100-40gb", "dgx-h100"}) {
    const std::string cluster = std::string("cluster.topology=topologies/") + topology + ".yaml";
    EXPECT_EQ(TrainingOf({cluster}).dispatch, megatron) << topology;
    EXPECT_TRUE(TrainingOf({cluster}).dispatch_known);
    EXPECT_TRUE(TrainingOf({cluster, "data_parallel.framework=ddp"}).dispatch_known);
    EXPECT_FALSE(
        TrainingOf({cluster, "data_parallel.framework=fsdp1", "data_parallel.zero_stage=3"})
            .dispatch_known);
  }
}

// DeepSpeed has no layers: divided or pipelined ones are Megatron-LM's.
TEST(FrameworkCostsFile, LayersOfDividedDeepSpeedAreMegatrons) {
  const std::string deepspeed = "data_parallel.framework=deepspeed";
  EXPECT_FALSE(TrainingOf({deepspeed}).dispatch_known);
  const plan::Training megatron = TrainingOf({});
  EXPECT_EQ(TrainingOf({deepspeed, "parallelism.pipeline=2"}).dispatch, megatron.dispatch);
  EXPECT_EQ(TrainingOf({deepspeed, "parallelism.tensor=2"}).dispatch, megatron.dispatch);
}

TEST(FrameworkCostsFile, CompiledBlocksAndGivenTimesAreKnown) {
  const std::string ddp = "data_parallel.framework=ddp";
  EXPECT_TRUE(TrainingOf({ddp, "training.compile=true"}).dispatch_known);
  EXPECT_TRUE(TrainingOf({ddp, "training.dispatch={module: 9 us, autograd: 3 us}"}).dispatch_known);
}

}  // namespace
}  // namespace stepcast::scenario
