#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/calibration/calibration.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           parameter_dtype: bf16, optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

scenario::Scenario Load(const std::vector<std::string>& set = {}) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(kScenario, "test", set, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

// Two kernels of a module, three of autograd and one of neither; each takes 10 us to launch.
TEST(HostCosts, AddUpByIssuer) {
  program::Program program;
  for (const Issuer issuer : {Issuer::kModule, Issuer::kAutograd, Issuer::kFramework}) {
    Kernel& kernel = program.kernels.emplace_back();
    kernel.issuer = issuer;
  }
  StepCounts counts;
  counts.kernels = {2, 3, 1};
  counts.copies = {4};
  cost::Prices prices;
  prices.issue_kernel = Microseconds(10);
  prices.issue_copy = Microseconds(1);
  EXPECT_EQ(HostTime(program, counts, prices,
                     {.module = Microseconds(100), .autograd = Microseconds(20)}),
            Microseconds(2 * 110 + 3 * 30 + 10 + 4));
}

// FSDP1's costs are unknown.
TEST(HostCosts, AnUnknownOneWidensTheRangeUpwards) {
  const std::string framework = "data_parallel.framework=fsdp1";
  const std::string stage = "data_parallel.zero_stage=3";
  const Forecast fsdp1 = Simulate(Load({framework, stage}))->forecast;
  ASSERT_TRUE(fsdp1.unknown_host.has_value());
  EXPECT_EQ(fsdp1.unknown_host->like, "fsdp2");  // the costliest that is known
  EXPECT_EQ(fsdp1.step_time_range->high, fsdp1.unknown_host->step_time);
  const std::string given = "training.dispatch={module: 0 us, autograd: 0 us}";
  const Forecast known = Simulate(Load({framework, stage, given}))->forecast;
  EXPECT_FALSE(known.unknown_host.has_value());
  EXPECT_EQ(known.step_time, fsdp1.step_time);
  EXPECT_EQ(known.step_time_range->low, fsdp1.step_time_range->low);
  EXPECT_LT(known.step_time_range->high, fsdp1.step_time_range->high);
}

// Long kernels hide the host time, however large.
TEST(HostCosts, LongKernelsNeedNoWiderRange) {
  const Forecast forecast =
      Simulate(Load({"model=models/llama3.1-8b.yaml", "training.micro_batch_size=1",
                     "training.sequence_length=8192", "training.parameter_dtype=fp32",
                     "data_parallel.framework=fsdp2", "data_parallel.zero_stage=3"}))
          ->forecast;
  EXPECT_FALSE(forecast.unknown_host.has_value());
}

// Both devices have the same clocks and hosts; the device with 40 GB has slower memory.
TEST(HostCosts, TheSmallerA100IsNoFaster) {
  for (const char* framework : {"megatron", "ddp"}) {
    for (const char* micro_batch : {"1", "4", "16"}) {
      std::vector<std::string> set{std::string("data_parallel.framework=") + framework,
                                   std::string("training.micro_batch_size=") + micro_batch};
      const Forecast large = Simulate(Load(set))->forecast;
      set.emplace_back("cluster.topology=topologies/dgx-a100-40gb.yaml");
      const Forecast small = Simulate(Load(set))->forecast;
      EXPECT_GE(small.step_time, large.step_time) << framework << micro_batch;
      EXPECT_LE(small.step_time / large.step_time, 1.25);  // at most the ratio of bandwidths, 1.31
    }
  }
}

// The host bounds GPT-2 in Megatron-LM: with a host of half the speed, a step takes nearly twice as
// long.
TEST(HostCosts, ScaleWithTheHost) {
  const scenario::Scenario plain = Load({"data_parallel.framework=megatron"});
  ASSERT_NE(plain.cluster->node_type(), nullptr);
  topology::NodeType slow = *plain.cluster->node_type();
  slow.host_speed = 0.5;
  scenario::Scenario scenario = plain;
  scenario.cluster = std::make_shared<const topology::Cluster>(slow, std::nullopt, 1);
  scenario.plan.training.dispatch = calibration::OnHost(plain.plan.training.dispatch, 0.5);
  EXPECT_EQ(scenario.plan.training.dispatch.module, 2 * plain.plan.training.dispatch.module);
  const double change =
      Simulate(scenario)->forecast.step_time / Simulate(plain)->forecast.step_time;
  EXPECT_GT(change, 1.8);
  EXPECT_LE(change, 2);
}

}  // namespace
}  // namespace stepcast::forecast
