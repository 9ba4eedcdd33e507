#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/warnings.h"
#include "src/program/program.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 2, parameters: [8000], forward: 1 ms, backward: 2 ms, activation: 0 B}
  optimizer_step: 1 ms
cluster: {topology: topologies/dgx-a100.yaml}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

// The warnings for a rank with these optimizer states, part of `reserved`, on a device of 80 GiB.
std::vector<std::string> WarningsOf(const std::vector<std::string>& set, Bytes states,
                                    Bytes reserved) {
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(kScenario, "test", set, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  MemoryForecast memory;
  memory.at_peak[static_cast<std::size_t>(program::Category::kOptimizer)] = states;
  memory.peak = memory.reserved = reserved;
  memory.capacity = GiB(80);
  memory.fits = reserved <= memory.capacity;
  scenario->warnings.clear();
  WarnOfOptimizerStates(memory, *scenario);
  return scenario->warnings;
}

// 4 bytes per parameter become 12: 10 GiB become 30. 65 + 20 exceeds 80; 55 + 20 does not.
TEST(WarnOfOptimizerStates, SaysWhereMasterWeightsWouldNotFit) {
  EXPECT_EQ(
      WarningsOf({}, GiB(10), GiB(65)),
      (std::vector<std::string>{
          "training.master_weights is not set. With master_weights: none and "
          "optimizer_state_dtype: bf16 (the default of fsdp2), optimizer states need 10 GiB per "
          "rank, and the plan fits. With master_weights: fp32 and optimizer_state_dtype: fp32 (the "
          "choice of Apex's FusedAdam with amp O2), optimizer states would need 30 GiB, and the "
          "plan would not fit. Set training.master_weights to the value that your job uses"}));
  EXPECT_TRUE(WarningsOf({}, GiB(10), GiB(55)).empty());
  // Neither choice fits.
  EXPECT_TRUE(WarningsOf({}, GiB(10), GiB(85)).empty());
}

// The textbook's 12 bytes become PyTorch's 4, and Megatron-LM's become the 6 of its precision-aware
// optimizer: 30 GiB become 10 and 15.
TEST(WarnOfOptimizerStates, SaysWhereLessWouldFit) {
  const auto textbook = WarningsOf({"data_parallel.framework=reference"}, GiB(30), GiB(90));
  ASSERT_EQ(textbook.size(), 1U);
  EXPECT_NE(textbook[0].find("optimizer states would need 10 GiB, and the plan would fit"),
            std::string::npos)
      << textbook[0];
  const std::vector<std::string> megatron = {"data_parallel.framework=megatron",
                                             "data_parallel.zero_stage=1"};
  const auto precision_aware = WarningsOf(megatron, GiB(30), GiB(90));
  ASSERT_EQ(precision_aware.size(), 1U);
  EXPECT_NE(precision_aware[0].find("optimizer states would need 15 GiB, and the plan would fit"),
            std::string::npos)
      << precision_aware[0];
  EXPECT_TRUE(WarningsOf(megatron, GiB(30), GiB(100)).empty());
}

// No warning if the scenario states its optimizer states, has FP32 parameters, or uses DeepSpeed,
// which has no alternative.
TEST(WarnOfOptimizerStates, IsSilentWhereThereIsNothingToChoose) {
  EXPECT_TRUE(WarningsOf({"training.master_weights=none"}, GiB(10), GiB(65)).empty());
  EXPECT_TRUE(WarningsOf({"training.parameter_dtype=fp32"}, GiB(10), GiB(75)).empty());
  EXPECT_TRUE(WarningsOf({"data_parallel.framework=deepspeed"}, GiB(30), GiB(90)).empty());
}

}  // namespace
}  // namespace stepcast::forecast
