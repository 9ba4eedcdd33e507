// A sweep's forecasts equal those of `simulate`, figure by figure, for random plans.

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/forecast/values.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

std::vector<std::string> AnyPlan() {
  std::vector<std::string> set;
  const auto vary = [&set](const char* key, std::vector<const char*> values) {
    set.push_back(std::string(key) + "=" + *rc::gen::elementOf(values));
  };
  const std::string framework = *rc::gen::elementOf(std::vector<std::string>{
      "reference", "reference", "ddp", "fsdp2", "fsdp1", "deepspeed", "megatron"});
  set.push_back("data_parallel.framework=" + framework);
  if (framework == "reference") {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3"});
    vary("data_parallel.overlap", {"true", "false"});
  } else if (framework == "deepspeed") {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3"});
  } else {
    set.push_back(std::string("data_parallel.zero_stage=") + (framework == "ddp"        ? "0"
                                                              : framework == "megatron" ? "1"
                                                                                        : "3"));
  }
  if (framework == "reference" || framework == "ddp") {
    vary("data_parallel.bucket_size", {"1 MiB", "1025 KiB", "25 MiB", "200 MiB"});
  }
  if (framework == "reference" && set[1].ends_with("3")) {
    vary("data_parallel.prefetch", {"0", "1", "3"});
    vary("data_parallel.reshard_after_forward", {"true", "false", "8"});
  }
  if (framework == "fsdp2") {
    vary("data_parallel.prefetch", {"0", "1", "3"});
    vary("data_parallel.reshard_after_forward", {"true", "false", "8"});
  }
  vary("training.micro_batch_size", {"1", "4", "160"});  // the last does not fit
  vary("training.gradient_accumulation", {"1", "3"});
  vary("training.activation_checkpointing", {"none", "full"});
  vary("training.step_barrier", {"false", "false", "true"});
  // Two classes of ranks, or three.
  vary("cluster.slow_devices", {"[]", "[]", "[{device: node0/gpu3, speed: 0.9}]",
                                "[{device: node0/gpu0, speed: 0.5}, {device: node0/gpu7, speed: "
                                "0.75}]"});
  return set;
}

void CheckSame(const Forecast& a, const Forecast& b) {
  RC_ASSERT(a.step_time == b.step_time);
  RC_ASSERT(a.tokens_per_second == b.tokens_per_second);
  RC_ASSERT(a.tokens_per_second_per_gpu == b.tokens_per_second_per_gpu);
  RC_ASSERT(a.mfu == b.mfu);
  RC_ASSERT(a.hfu == b.hfu);
  RC_ASSERT(a.memory.at_peak == b.memory.at_peak);
  RC_ASSERT(a.memory.peak == b.memory.peak);
  RC_ASSERT(a.memory.reserved == b.memory.reserved);
  RC_ASSERT(a.memory.outside == b.memory.outside);
  RC_ASSERT(a.memory.capacity == b.memory.capacity);
  RC_ASSERT(a.memory.padding == b.memory.padding);
  RC_ASSERT(a.memory.fits == b.memory.fits);
  RC_ASSERT(a.memory.allocator_flushes == b.memory.allocator_flushes);
}

void CheckSameRange(const Forecast& a, const Forecast& b) {
  RC_ASSERT(a.step_time_range.has_value() == b.step_time_range.has_value());
  if (!a.step_time_range) return;
  RC_ASSERT(a.step_time_range->low == b.step_time_range->low);
  RC_ASSERT(a.step_time_range->high == b.step_time_range->high);
  RC_ASSERT(a.unknown_host.has_value() == b.unknown_host.has_value());
}

// One Forecaster forecasts them all, so that stale caches would show. Each plan is tried on several
// numbers of nodes, as in a sweep.
TEST(ForecasterTest, EveryFigureIsThatOfSimulate) {
  scenario::InputCache cache;
  Forecaster forecaster;
  rc::detail::checkGTest([&] {
    const std::vector<std::string> plan = AnyPlan();
    for (const char* nodes : {"2", "1", "3", "16"}) {
      std::vector<std::string> set = plan;
      set.push_back(std::string("cluster.nodes=") + nodes);
      const auto scenario = scenario::LoadText(kScenario, "test", set, cache);
      if (!scenario) RC_FAIL(Format(scenario.error()));
      const auto row = forecaster.Evaluate(*scenario);
      const auto single = Simulate(*scenario);
      RC_ASSERT(row.has_value());
      RC_ASSERT(single.has_value());
      CheckSame(*row, single->forecast);
      const auto with_range = forecaster.Evaluate(*scenario, Detail::kRange);
      RC_ASSERT(with_range.has_value());
      CheckSame(*with_range, single->forecast);
      const auto& classes = single->forecast.classes;
      RC_ASSERT(with_range->classes.size() == classes.size());
      for (std::size_t i = 0; i < classes.size(); ++i) {
        RC_ASSERT(with_range->classes[i].memory.peak == classes[i].memory.peak);
      }
      CheckSameRange(*with_range, single->forecast);
    }
  });
}

// In the order of a sweep, a program occurs again with larger micro-batches after all of the
// sweep's other plans.
TEST(ForecasterTest, ProgramsComeAgainWithOtherMicroBatches) {
  scenario::InputCache cache;
  const std::vector<std::vector<std::string>> plans = {
      {"data_parallel.zero_stage=0"},
      {"data_parallel.zero_stage=1"},
      {"data_parallel.zero_stage=2"},
      {"data_parallel.zero_stage=3", "training.activation_checkpointing=full"},
      {"data_parallel.framework=ddp"}};
  for (const std::vector<std::string>& plan : plans) {
    Forecaster forecaster;
    for (const char* batch : {"1", "4", "160"}) {
      for (const char* accumulation : {"1", "3"}) {
        for (const char* bucket : {"4 MiB", "5 MiB", "300 MiB"}) {
          for (const char* nodes : {"1", "2", "3", "4", "7", "16"}) {
            std::vector<std::string> set = plan;
            set.push_back("model=models/llama2-7b.yaml");
            set.push_back(std::string("training.micro_batch_size=") + batch);
            set.push_back(std::string("training.gradient_accumulation=") + accumulation);
            set.push_back(std::string("data_parallel.bucket_size=") + bucket);
            set.push_back(std::string("cluster.nodes=") + nodes);
            const auto scenario = scenario::LoadText(kScenario, "test", set, cache);
            ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
            const auto row = forecaster.Evaluate(*scenario);
            const auto single = Simulate(*scenario);
            ASSERT_TRUE(row.has_value() && single.has_value());
            const MemoryForecast& memory = single->forecast.memory;
            EXPECT_EQ(row->step_time, single->forecast.step_time);
            EXPECT_EQ(row->mfu, single->forecast.mfu);
            EXPECT_EQ(row->memory.at_peak, memory.at_peak);
            EXPECT_EQ(row->memory.reserved, memory.reserved);
            EXPECT_EQ(row->memory.padding, memory.padding);
            EXPECT_EQ(row->memory.fits, memory.fits);
          }
        }
      }
    }
  }
}

// From driver 530 on NVSwitch supports multicast, on which NCCL's choices depend.
TEST(ForecasterTest, RowsMayDifferInTheDriverAlone) {
  scenario::InputCache cache;
  Forecaster forecaster;
  std::vector<Time> times;
  for (const char* driver : {"550.0", "525.0"}) {
    const auto scenario = scenario::LoadText(
        kScenario, "test",
        {"cluster.topology=topologies/dgx-h100.yaml", "data_parallel.framework=ddp",
         "data_parallel.bucket_size=200 MiB", "training.dispatch={module: 0 us, autograd: 0 us}",
         std::string("software.driver=\"") + driver + "\""},
        cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    const auto row = forecaster.Evaluate(*scenario);
    const auto single = Simulate(*scenario);
    ASSERT_TRUE(row.has_value());
    ASSERT_TRUE(single.has_value());
    EXPECT_EQ(row->step_time, single->forecast.step_time);
    times.push_back(row->step_time);
  }
  EXPECT_NE(times[0], times[1]);
}

// MPT-30B on eight GPUs leaves no room for FSDP's cache in every micro-batch. With more memory on
// the same device nothing is flushed; otherwise the step is the same.
TEST(ForecasterTest, AStepOnAFullDeviceStopsForTheDriver) {
  scenario::InputCache cache;
  Forecaster forecaster;
  const auto forecast = [&](const char* gpu) {
    const auto scenario =
        scenario::LoadText(kScenario, "test",
                           {"model=models/mpt-30b.yaml",
                            std::string("cluster.topology=topologies/dgx-") + gpu + ".yaml",
                            "training.sequence_length=2048", "training.micro_batch_size=3",
                            "training.gradient_accumulation=4", "training.parameter_dtype=fp32",
                            "training.reduce_dtype=fp32", "training.activation_checkpointing=full",
                            "training.attention=flash1", "training.loss=fused",
                            "data_parallel.framework=fsdp1", "data_parallel.zero_stage=3"},
                           cache);
    EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
    const auto row = forecaster.Evaluate(*scenario, Detail::kRange);
    const auto single = Simulate(*scenario);
    EXPECT_EQ(row->step_time, single->forecast.step_time);
    EXPECT_EQ(row->time.allocator_flushes, single->forecast.time.allocator_flushes);
    EXPECT_EQ(row->step_time_range->low, single->forecast.step_time_range->low);
    return single->forecast;
  };
  const Forecast full = forecast("h100"), roomy = forecast("h200");
  ASSERT_GT(full.memory.allocator_flushes, 0);
  EXPECT_EQ(roomy.memory.allocator_flushes, 0);
  EXPECT_EQ(roomy.time.allocator_flushes, Time());
  // At least the time to return a gigabyte at each flush.
  EXPECT_GT(full.time.allocator_flushes, Microseconds(4 * 2 * 7'000));
  EXPECT_LT(full.time.allocator_flushes, full.step_time);
  // The range includes the error of every step, 12 %, and no flush or twice as many.
  const Time above = full.step_time_range->high - full.step_time;
  EXPECT_GT(above.seconds(), 0.12 * full.step_time.seconds());
  EXPECT_GT(above, full.time.allocator_flushes);
  EXPECT_EQ(above, full.step_time - full.step_time_range->low);
}

}  // namespace
}  // namespace stepcast::forecast
