#include "src/scenario/key_values.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::scenario {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Scenario() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/key_values.yaml";
  std::ofstream(path) << R"(stepcast: 1
model: {kind: layers, layers: [{name: a, parameters: [8], forward: 1 ms, backward: 1 ms,
                                activation: 0 B}], optimizer_step: 0 ms}
cluster: {topology: {kind: flat, devices: 4, memory: 1 GiB,
                     link: {latency: 5 us, bandwidth: 1 GB/s}}}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";
  return path;
}

std::vector<std::string> Values(const char* key) {
  InputCache cache;
  const auto values = ValuesOf(key, Scenario(), {}, cache);
  return values ? *values : std::vector<std::string>{"error: " + values.error()[0].message};
}

TEST(KeyValuesTest, ChoicesOfWords) {
  EXPECT_THAT(Values("training.optimizer"),
              ElementsAre("adamw", "sgd", "lamb", "adamw_8bit", "lion", "adafactor", "muon"));
  EXPECT_THAT(Values("training.precision"),
              ElementsAre("bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4"));
  EXPECT_THAT(Values("data_parallel.framework"),
              testing::IsSupersetOf({"reference", "ddp", "fsdp2"}));
  EXPECT_THAT(Values("training.activation_checkpointing"),
              testing::IsSupersetOf({"none", "selective", "full"}));
  // In a section that the scenario does not have.
  EXPECT_THAT(Values("data_parallel.deepspeed.offload_optimizer"),
              ElementsAre("none", "cpu", "nvme"));
}

TEST(KeyValuesTest, SwitchesAndSmallRanges) {
  EXPECT_THAT(Values("data_parallel.overlap"), ElementsAre("false", "true"));
  EXPECT_THAT(Values("data_parallel.zero_stage"), ElementsAre("0", "1", "2", "3"));
}

TEST(KeyValuesTest, KeysWithoutAFiniteSetAreRefused) {
  InputCache cache;
  for (const char* key : {"training.micro_batch_size", "data_parallel.bucket_size", "name"}) {
    const auto values = ValuesOf(key, Scenario(), {}, cache);
    ASSERT_FALSE(values.has_value()) << key;
    EXPECT_EQ(values.error()[0].code, "sweep.no-finite-set") << key;
    EXPECT_THAT(values.error()[0].message, HasSubstr(key));
  }
  const auto unknown = ValuesOf("training.precison", Scenario(), {}, cache);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error()[0].code, "input.unknown-key");
  const auto unreadable = ValuesOf("training.micro_batch_size", "/none.yaml", {}, cache);
  ASSERT_FALSE(unreadable.has_value());
  EXPECT_EQ(unreadable.error()[0].code, "file.not-found");
}

}  // namespace
}  // namespace stepcast::scenario
