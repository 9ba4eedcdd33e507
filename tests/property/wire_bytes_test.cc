// Bytes on the wire per rank and step, against the textbook's values, in units of the parameter
// bytes S = 2 x parameters (bf16), for N ranks: all-reduce 2(N-1)/N; ZeRO-1 and 2 the same in
// total; ZeRO-3 three times (N-1)/N; stage 2 with G micro-batches (G+1)(N-1)/N.

#include <gtest/gtest.h>

#include <cstdint>

#include "src/forecast/forecast.h"
#include "tests/property/flat_scenario.h"

namespace stepcast {
namespace {

constexpr std::int64_t kRanks = 8;
constexpr std::int64_t kElements = 8 * 1000;  // per tensor: divisible by the ranks
constexpr std::int64_t kLayers = 6;

scenario::Scenario Base() {
  const TestLayer layer{.parameters = {kElements, 2 * kElements},
                        .forward = Microseconds(10),
                        .backward = Microseconds(20)};
  return FlatScenario(ListOf(std::vector<TestLayer>(kLayers, layer), Time()),
                      {.devices = kRanks,
                       .latency = Microseconds(1),
                       .bandwidth = Bandwidth::GigabytesPerSecond(10)});
}

// In units of (N-1)/N S.
double Volume(int stage, std::int64_t micro_batches, bool accumulate_unsharded = false,
              bool no_sync = true) {
  scenario::Scenario scenario = Base();
  scenario.plan.data_parallel.zero_stage = stage;
  scenario.plan.data_parallel.accumulate_unsharded = accumulate_unsharded;
  scenario.plan.data_parallel.no_sync = no_sync;
  scenario.plan.training.gradient_accumulation = micro_batches;
  if (stage < 3) scenario.plan.data_parallel.bucket_size = KiB(100);
  const auto run = forecast::Simulate(scenario);
  EXPECT_TRUE(run.has_value());
  double bytes = 0;
  for (const auto& collective : run->forecast.collectives) bytes += collective.wire_bytes_per_rank;
  const double unit = 2.0 * kLayers * 3 * kElements * (kRanks - 1) / kRanks;
  return bytes / unit;
}

TEST(WireBytes, OneMicroBatch) {
  EXPECT_DOUBLE_EQ(Volume(0, 1), 2);
  EXPECT_DOUBLE_EQ(Volume(1, 1), 2);
  EXPECT_DOUBLE_EQ(Volume(2, 1), 2);
  EXPECT_DOUBLE_EQ(Volume(3, 1), 3);
}

TEST(WireBytes, Accumulation) {
  EXPECT_DOUBLE_EQ(Volume(0, 4), 2);
  EXPECT_DOUBLE_EQ(Volume(1, 4), 2);
  EXPECT_DOUBLE_EQ(Volume(2, 4), 4 + 1);
  EXPECT_DOUBLE_EQ(Volume(2, 4, true), 2);
  // Two all-gathers and one reduce-scatter per micro-batch; unsharded, one reduce-scatter per step.
  EXPECT_DOUBLE_EQ(Volume(3, 4), 3 * 4);
  EXPECT_DOUBLE_EQ(Volume(3, 4, true), 2 * 4 + 1);
}

// Without no_sync each of four micro-batches all-reduces (2), or reduce-scatters (1) beside the one
// all-gather of the updated parameters.
TEST(WireBytes, ReductionsOfEveryMicroBatch) {
  EXPECT_DOUBLE_EQ(Volume(0, 4, false, false), 4 * 2);
  EXPECT_DOUBLE_EQ(Volume(1, 4, false, false), 4 * 1 + 1);
  EXPECT_DOUBLE_EQ(Volume(0, 1, false, false), 2);
  EXPECT_DOUBLE_EQ(Volume(1, 1, false, false), 2);
}

TEST(WireBytes, KeepingParametersAfterForwardSavesOneGather) {
  scenario::Scenario scenario = Base();
  scenario.plan.data_parallel.zero_stage = 3;
  scenario.plan.data_parallel.reshard_after_forward = false;
  const auto run = forecast::Simulate(scenario);
  ASSERT_TRUE(run.has_value());
  std::int64_t gathers = 0, reductions = 0;
  for (const auto& collective : run->forecast.collectives) {
    (collective.collective == CollectiveKind::kAllGather ? gathers : reductions) +=
        collective.calls;
  }
  EXPECT_EQ(gathers, kLayers);
  EXPECT_EQ(reductions, kLayers);
}

// DeepSpeed's stages, in the same units, without gradient norms (an all-reduce of 4 B for every
// group of tensors that the optimizer updates). Stages 1 and 2 all-reduce, which is twice a
// reduce-scatter, and gather once; stage 3 without prefetch and reuse gathers twice.
double DeepSpeedVolume(int stage, std::int64_t micro_batches, bool overlap) {
  scenario::Scenario scenario = Base();
  scenario.plan.data_parallel.framework = plan::Framework::kDeepSpeed;
  scenario.plan.data_parallel.zero_stage = stage;
  scenario.plan.data_parallel.overlap = overlap;
  plan::DeepSpeed& deepspeed = scenario.plan.data_parallel.deepspeed;
  deepspeed.reduce_bucket_size = 5 * kElements;
  deepspeed.param_persistence_threshold = 0;
  deepspeed.prefetch_bucket_size = 0;
  deepspeed.max_reuse_distance = 0;
  scenario.plan.training.gradient_accumulation = micro_batches;
  const auto run = forecast::Simulate(scenario);
  EXPECT_TRUE(run.has_value());
  double bytes = 0;
  for (const auto& collective : run->forecast.collectives) bytes += collective.wire_bytes_per_rank;
  if (stage > 0) bytes -= 2.0 * 4 * (kRanks - 1) / kRanks;  // the norm
  const double unit = 2.0 * kLayers * 3 * kElements * (kRanks - 1) / kRanks;
  return bytes / unit;
}

TEST(WireBytes, DeepSpeed) {
  for (const bool overlap : {false, true}) {
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(1, 1, overlap), 2 + 1);
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(2, 1, overlap), 2 + 1);
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(3, 1, overlap), 2 + 1);
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(1, 4, overlap), 2 + 1);
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(2, 4, overlap), 4 * 2 + 1);
    EXPECT_DOUBLE_EQ(DeepSpeedVolume(3, 4, overlap), 4 * 3);
  }
}

}  // namespace
}  // namespace stepcast
