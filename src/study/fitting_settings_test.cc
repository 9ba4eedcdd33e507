#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"
#include "src/study/stage_memory.h"

namespace stepcast::study {
namespace {

// 8B with FP32 states on 8 x 80 GB. The states take 16 GB per rank, and activations of four
// sequences of 8,192 tokens do not fit without recomputation.
constexpr const char* kText = R"(
stepcast: 1
model: llama3.1-8b
cluster: {gpu: h100-sxm, gpus: 8}
training: {sequence_length: 8192, micro_batch_size: 4, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, optimizer: adamw}
data_parallel: {framework: fsdp2, zero_stage: 3}
)";

TEST(FittingSettings, MakeTheStepFit) {
  const scenario::MemoryDocument document("fitting.yaml", kText);
  scenario::InputCache cache;
  const auto own = scenario::Load(document.name(), {}, cache);
  ASSERT_TRUE(own.has_value());
  ASSERT_FALSE(forecast::FiguresOf(*own)->memory.fits);
  const report::Fitting fitting = SettingsThatFit(document.name(), {}, cache);
  ASSERT_FALSE(fitting.settings.empty());
  EXPECT_EQ(fitting.step_time, forecast::FiguresOf(*own)->step_time);
  Time before;
  for (const report::FittingSettings& one : fitting.settings) {
    const auto with = scenario::Load(document.name(), one.set, cache);
    ASSERT_TRUE(with.has_value());
    const auto figures = forecast::FiguresOf(*with);
    ASSERT_TRUE(figures.has_value());
    EXPECT_TRUE(figures->memory.fits);
    EXPECT_EQ(figures->step_time, one.step_time);
    EXPECT_EQ(with->plan.training.global_batch_size, own->plan.training.global_batch_size);
    EXPECT_GE(one.step_time, before);
    before = one.step_time;
  }
}

// States of 16 B for each of 3.2 billion parameters are 26 GB on each of two ranks, and the GPUs
// have 25.4 GB. Moments in 8 bits leave 10 B, 16 GB, beside activations of some 8 GB, which
// recomputation lowers. Without a host there is no offload, so that no setting suffices by itself.
TEST(FittingSettings, AreCombinedWhereNoneSuffices) {
  const scenario::MemoryDocument document("fitting.yaml", kText);
  const std::vector<std::string> set = {
      "model=llama3.2-3b",
      "cluster={topology: {kind: flat, devices: 2, gpu: rtx-4090, link: {latency: 5 us, bandwidth: "
      "25 GB/s}}}",
      "training.sequence_length=1024", "training.micro_batch_size=1"};
  scenario::InputCache cache;
  const report::Fitting fitting = SettingsThatFit(document.name(), set, cache);
  ASSERT_FALSE(fitting.settings.empty());
  EXPECT_LE(fitting.forecasts, 60);
  for (const report::FittingSettings& one : fitting.settings) {
    EXPECT_GT(one.set.size(), 1U);
    std::vector<std::string> all = set;
    all.insert(all.end(), one.set.begin(), one.set.end());
    const auto with = scenario::Load(document.name(), all, cache);
    ASSERT_TRUE(with.has_value());
    EXPECT_TRUE(forecast::FiguresOf(*with)->memory.fits);
  }
}

// 405B on two small GPUs: what comes nearest still lacks memory.
TEST(FittingSettings, AreNoneWhereNothingHelps) {
  const scenario::MemoryDocument document("fitting.yaml", kText);
  scenario::InputCache cache;
  const report::Fitting fitting = SettingsThatFit(
      document.name(), {"model=llama3.1-405b", "cluster={gpu: rtx-4090, gpus: 2}"}, cache);
  EXPECT_TRUE(fitting.settings.empty());
  ASSERT_TRUE(fitting.nearest.has_value());
  EXPECT_LT(fitting.nearest->left, Bytes());
}

// No time: nothing is tried, and the answer says so.
TEST(FittingSettings, AreNotTriedWithoutTime) {
  const scenario::MemoryDocument document("fitting.yaml", kText);
  scenario::InputCache cache;
  const report::Fitting fitting =
      SettingsThatFit(document.name(), {}, cache, std::chrono::milliseconds(0));
  EXPECT_TRUE(fitting.settings.empty());
}

}  // namespace
}  // namespace stepcast::study
