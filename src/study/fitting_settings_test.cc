#include "src/study/fitting_settings.h"

#include <string>

#include "gtest/gtest.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"

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
  const auto fitting = SettingsThatFit(document.name(), {}, cache);
  ASSERT_FALSE(fitting.empty());
  Time before;
  for (const report::FittingSettings& one : fitting) {
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

TEST(FittingSettings, AreNoneWhereNothingHelps) {
  const scenario::MemoryDocument document("fitting.yaml", kText);
  scenario::InputCache cache;
  EXPECT_TRUE(SettingsThatFit(document.name(),
                              {"model=llama3.1-405b", "cluster={gpu: rtx-4090, gpus: 2}"}, cache)
                  .empty());
}

}  // namespace
}  // namespace stepcast::study
