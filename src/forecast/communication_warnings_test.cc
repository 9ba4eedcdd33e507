#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/forecast/warnings.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

// FSDP uses all-gathers and reduce-scatters, and DDP all-reduces.
constexpr const char* kScenario = R"(
stepcast: 1
model: {{kind: transformer, family: llama, num_hidden_layers: 2, hidden_size: 1024,
        num_attention_heads: 8, intermediate_size: 4096, vocab_size: 1000}}
cluster: {{topology: topologies/dgx-h100.yaml, nodes: 2}}
training: {{sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}}
data_parallel: {{framework: {}, zero_stage: {}}}
)";

std::vector<std::string> WarningsOf(const char* framework, int stage, const std::string& setting) {
  scenario::InputCache cache;
  auto scenario =
      scenario::LoadText(fmt::format(kScenario, framework, stage), "test", {setting}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  scenario->warnings.clear();
  WarnOfCommunicationSettings(*scenario);
  return scenario->warnings;
}

std::vector<std::string> NoEffect(const char* said) {
  return {
      fmt::format("{} has no effect in this scenario, because the collectives of the step take the "
                  "same time without this setting",
                  said)};
}

// NCCL has trees only for all-reduces; the other collectives use rings.
TEST(WarnOfCommunicationSettings, NamesWhatLeavesCollectivesAsTheyAre) {
  EXPECT_EQ(WarningsOf("fsdp2", 3, "cluster.collective_algorithm=tree"),
            NoEffect("cluster.collective_algorithm tree"));
  EXPECT_TRUE(WarningsOf("ddp", 0, "cluster.collective_algorithm=tree").empty());
  EXPECT_EQ(WarningsOf("fsdp2", 3, "communication.nccl_algo=Ring"),
            NoEffect("communication.nccl_algo Ring"));
  // Both drivers support multicast through NVSwitch, which came with 530.
  EXPECT_EQ(WarningsOf("ddp", 0, "software.driver=550.54"), NoEffect("software.driver 550.54"));
  EXPECT_TRUE(WarningsOf("ddp", 0, "software.driver=470.0").empty());
}

// One ring over all GPUs never uses a link twice.
TEST(WarnOfCommunicationSettings, NamesANetworkThatHindersNothing) {
  EXPECT_EQ(
      WarningsOf("fsdp2", 3, "cluster.network=flow"),
      std::vector<std::string>{"cluster.network flow has no effect in this scenario, because "
                               "no link is saturated; with analytic, the result is the same"});
}

TEST(WarnOfCommunicationSettings, IsSilentOfDefaults) {
  EXPECT_TRUE(WarningsOf("ddp", 0, "cluster.collective_algorithm=auto").empty());
}

}  // namespace
}  // namespace stepcast::forecast
