#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

Result<scenario::Scenario> Load(const std::vector<std::string>& set, scenario::InputCache& cache) {
  return scenario::LoadText(kScenario, "limit.yaml", set, cache);
}

std::vector<std::string> AnyPlan() {
  const auto plans = std::vector<std::string>{
      "{zero_stage: 0, framework: ddp}",       "{zero_stage: 0, framework: reference}",
      "{zero_stage: 3, framework: reference}", "{zero_stage: 3, framework: fsdp2}",
      "{zero_stage: 2, framework: fsdp2}",     "{zero_stage: 3, framework: fsdp1}",
      "{zero_stage: 2, framework: deepspeed}", "{zero_stage: 3, framework: deepspeed}",
      "{zero_stage: 1, framework: megatron}"};
  return {
      "data_parallel=" + *rc::gen::elementOf(plans),
      fmt::format("training.sequence_length={}", *rc::gen::elementOf(std::vector{64, 512, 1024})),
      fmt::format("training.gradient_accumulation={}", *rc::gen::inRange(1, 4)),
      "training.activation_checkpointing=" +
          *rc::gen::elementOf(std::vector<std::string>{"none", "selective", "full"})};
}

// The two invariants on which the search is based.
RC_GTEST_PROP(PeakInHostOrder, IsBelowThePeakAndNeverFalls, ()) {
  scenario::InputCache cache;
  const std::vector<std::string> set = AnyPlan();
  Bytes before;
  std::int64_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size += *rc::gen::inRange(1, 12);
    std::vector<std::string> all = set;
    all.push_back(fmt::format("training.micro_batch_size={}", size));
    const auto scenario = Load(all, cache);
    RC_ASSERT(scenario.has_value());
    const Bytes least = memory::PeakInHostOrder(lowering::LowerRank(*scenario));
    RC_ASSERT(least >= before);
    before = least;
    Forecaster forecaster;
    const auto forecast = forecaster.Evaluate(*scenario);
    RC_ASSERT(forecast.has_value());
    RC_ASSERT(least <= forecast->memory.peak);
  }
}

// The reported limit equals the result of trying every size, and agrees with `simulate` at that
// size and the next.
TEST(MicroBatchLimit, IsTheLastThatFits) {
  scenario::InputCache cache;
  for (const char* plan : {"{zero_stage: 0, framework: ddp}", "{zero_stage: 3, framework: fsdp1}",
                           "{zero_stage: 2, framework: deepspeed}"}) {
    const auto scenario = Load({fmt::format("data_parallel={}", plan)}, cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    const auto limit = FindMicroBatchLimit(*scenario);
    ASSERT_TRUE(limit.has_value());
    std::int64_t last = 0;
    for (std::int64_t size = 1; size <= 3 * limit->largest; ++size) {
      const auto at = Load({fmt::format("data_parallel={}", plan),
                            fmt::format("training.micro_batch_size={}", size)},
                           cache);
      ASSERT_TRUE(at.has_value());
      Forecaster forecaster;
      const auto forecast = forecaster.Evaluate(*at);
      ASSERT_TRUE(forecast.has_value());
      if (forecast->memory.fits) last = size;
      if (size == limit->largest) {
        EXPECT_EQ(forecast->memory.reserved, limit->memory.reserved);
      }
      if (size == limit->largest + 1) {
        EXPECT_EQ(forecast->memory.reserved, limit->beyond.reserved);
        EXPECT_FALSE(limit->beyond.fits);
      }
    }
    EXPECT_EQ(limit->largest, last) << plan;
    EXPECT_GT(last, 1) << plan;
    EXPECT_FALSE(limit->of_the_plan);
  }
}

TEST(MicroBatchLimit, IsZeroWhereNothingFits) {
  scenario::InputCache cache;
  // 20 bytes for each of 175 billion parameters on one device of 80 GiB.
  const auto scenario = Load({"model=models/gpt3-175b.yaml"}, cache);
  ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
  const auto limit = FindMicroBatchLimit(*scenario);
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->largest, 0);
  EXPECT_FALSE(limit->memory.fits);
}

}  // namespace
}  // namespace stepcast::forecast
