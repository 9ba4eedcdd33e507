// Known practical results: the batch of four million tokens, the best bucket size, and the
// agreement of a layer list with a DDP recurrence.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

scenario::Scenario Loaded(const std::string& path, const std::vector<std::string>& overrides) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::Load(path, overrides, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  return std::move(*scenario);
}

Time StepTime(const scenario::Scenario& scenario) {
  const auto run = forecast::Simulate(scenario);
  EXPECT_TRUE(run.has_value());
  return run->forecast.step_time;
}

// 1024 sequences of 4096 tokens, two at a time: 128 ranks need 1024 / (2 x 128) = 4 micro-batches,
// and 512 ranks one. Four times the ranks are faster, by less than four times.
TEST(FourMillionTokens, MoreRanksTakeFewerMicroBatchesAndLessTime) {
  const char* path = "scenarios/four-million-tokens/scenario.yaml";
  const auto few = Loaded(path, {"cluster.nodes=16"});
  const auto many = Loaded(path, {"cluster.nodes=64"});
  EXPECT_EQ(few.plan.parallelism.data, 128);
  EXPECT_EQ(few.plan.training.gradient_accumulation, 4);
  EXPECT_EQ(many.plan.parallelism.data, 512);
  EXPECT_EQ(many.plan.training.gradient_accumulation, 1);
  const Time slow = StepTime(few);
  const Time fast = StepTime(many);
  EXPECT_LT(fast, slow);
  EXPECT_GT(4 * fast, slow);
}

// Small buckets pay the ring's latency each, and large ones start late: on a communication-bound
// model the best size is in between.
TEST(BucketSweep, MinimumLiesInside) {
  std::vector<Time> times;
  for (const char* size :
       {"2 MiB", "4 MiB", "8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB", "576 MiB"}) {
    times.push_back(StepTime(Loaded("scenarios/bucket-sweep/scenario.yaml",
                                    {std::string("data_parallel.bucket_size=") + size})));
  }
  const auto best = std::min_element(times.begin(), times.end());
  EXPECT_NE(best, times.begin());
  EXPECT_NE(best, times.end() - 1);
}

}  // namespace
}  // namespace stepcast
