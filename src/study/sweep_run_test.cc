#include "src/study/sweep_run.h"

#include <string>

#include "gtest/gtest.h"
#include "src/scenario/memory_document.h"

namespace stepcast::study {
namespace {

constexpr const char* kText = R"(
stepcast: 1
model: gpt2
cluster: {topology: dgx-h100, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {framework: fsdp2, zero_stage: 3}
)";

// FSDP communicates by unit, so that no combination has buckets. The hint is a command that works.
TEST(SweepRun, NamesTheKeyThatTheFrameworkHasInstead) {
  const scenario::MemoryDocument document("my.yaml", kText);
  SweepQuestion question;
  question.scenario = document.name();
  question.vary = {"data_parallel.bucket_size=1 MiB,25 MiB", "training.micro_batch_size=1,2"};
  question.command = {{"stepcast", "sweep", "my.yaml"}, {}};
  const auto ready = SweepRun(question).Prepare();
  ASSERT_FALSE(ready.has_value());
  ASSERT_EQ(ready.error().size(), 1U) << Format(ready.error());
  EXPECT_EQ(ready.error().front().code, "plan.key-not-of-framework");
  EXPECT_EQ(ready.error().front().location.file, "--vary data_parallel.bucket_size=1 MiB,25 MiB");
  EXPECT_EQ(ready.error().front().hint,
            "fsdp2 uses unit_blocks instead: stepcast sweep my.yaml --vary "
            "data_parallel.unit_blocks=1,2,4 --vary training.micro_batch_size=1,2");
  // Where some combinations have it, the others are rows with the reason.
  question.vary.front() = "data_parallel.bucket_size=null,25 MiB";
  EXPECT_TRUE(SweepRun(question).Prepare().has_value());
}

}  // namespace
}  // namespace stepcast::study
