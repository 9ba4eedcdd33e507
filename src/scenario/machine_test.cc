// Tests of clusters given by their GPUs.

#include "src/scenario/machine.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {
namespace {

Result<Scenario> LoadOn(const std::string& cluster, const std::string& others = "") {
  static InputCache cache;
  const std::string text = "stepcast: 1\nmodel: llama3.2-1b\ncluster: " + cluster + R"(
training: {sequence_length: 2048, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)" + others;
  return LoadText(text, "machine.yaml", {}, cache);
}

TEST(Machine, IsAWorkstationWhereNoTopologyHasTheGpu) {
  const auto scenario = LoadOn("{gpu: rtx-4090, gpus: 4}");
  ASSERT_TRUE(scenario) << Format(scenario.error());
  EXPECT_EQ(scenario->cluster->devices(), 4);
  EXPECT_EQ(scenario->cluster->nodes(), 1);
  EXPECT_EQ(scenario->gpu->name, "rtx-4090");
}

// 64 GiB for each GPU, and said where the machine is assumed. CPU offload then has a host.
TEST(Machine, StatesTheHostOfAWorkstation) {
  const auto scenario = LoadOn("{gpu: rtx-4090, gpus: 4}");
  ASSERT_TRUE(scenario) << Format(scenario.error());
  const auto& warnings = scenario->warnings;
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
    return warning.find("256 GiB of host memory at 204 GB/s") != std::string::npos;
  }));
}

TEST(Machine, IsAPartOfAShippedNode) {
  const auto scenario = LoadOn("{gpu: a100-sxm-40gb, gpus: 4}");
  ASSERT_TRUE(scenario) << Format(scenario.error());
  EXPECT_EQ(scenario->cluster->devices(), 4);
  EXPECT_EQ(scenario->gpu->name, "a100-sxm-40gb");
}

TEST(Machine, HasAsManyNodesAsHoldItsGpus) {
  const auto scenario = LoadOn("{gpu: h100-sxm, gpus: 64}");
  ASSERT_TRUE(scenario) << Format(scenario.error());
  EXPECT_EQ(scenario->cluster->nodes(), 8);
  const auto one = LoadOn("{gpu: h100-sxm}");
  ASSERT_TRUE(one) << Format(one.error());
  EXPECT_EQ(one->cluster->devices(), 1);
}

// A sweep of the data-parallel degree leaves GPUs idle.
TEST(Machine, LeavesGpusIdleThatThePlanDoesNotUse) {
  for (const std::string gpu : {"rtx-4090", "a100-sxm-40gb"}) {  // a whole machine, and a part
    const std::string cluster = "{gpu: " + gpu + ", gpus: 4, devices: plan}";
    const auto two = LoadOn(cluster, "parallelism: {data: 2}");
    ASSERT_TRUE(two) << Format(two.error());
    EXPECT_EQ(two->cluster->devices(), 2);
    const auto all = LoadOn(cluster);
    ASSERT_TRUE(all) << Format(all.error());
    EXPECT_EQ(all->cluster->devices(), 4);
    const auto eight = LoadOn(cluster, "parallelism: {data: 8}");
    ASSERT_FALSE(eight);
    EXPECT_EQ(eight.error().front().code, "plan.device-count");
  }
}

TEST(Machine, RefusesWhatIsNone) {
  const auto codes = [](const std::string& cluster) {
    const auto scenario = LoadOn(cluster);
    return scenario ? std::string() : scenario.error().front().code;
  };
  EXPECT_EQ(codes("{gpu: rtx-4091, gpus: 4}"), "topology.unknown-gpu");
  EXPECT_EQ(codes("{gpu: rtx-4090, gpus: 64}"), "topology.too-many-gpus");
  EXPECT_EQ(codes("{gpu: rtx-4090, gpus: 4, nodes: 2}"), "scenario.two-clusters");
  EXPECT_EQ(codes("{gpu: rtx-4090, gpus: 4, devices: 2}"), "scenario.two-clusters");
  EXPECT_EQ(codes("{topology: rtx-4090}"), "file.not-found");
}

}  // namespace
}  // namespace stepcast::scenario
