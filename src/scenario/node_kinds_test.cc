#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/scenario/job_devices.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {
namespace {

Scenario Loaded(const std::string& other_nodes) {
  InputCache cache;
  auto scenario = LoadText(R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2, other_nodes: )" +
                               other_nodes + R"(}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 1, framework: megatron}
)",
                           "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return *std::move(scenario);
}

TEST(NodeKinds, FollowEachOtherInTheOrderOfRanks) {
  const Scenario scenario = Loaded(
      "[{topology: topologies/dgx-a100.yaml, nodes: 1}, {topology: topologies/pcie-8gpu.yaml, "
      "nodes: 3}]");
  EXPECT_EQ(scenario.cluster->devices(), 48);
  EXPECT_EQ(scenario.plan.parallelism.data, 48);
  EXPECT_EQ(KindCount(scenario), 3);
  const std::vector<int> first = {0, 16, 24};
  for (int kind = 0; kind < 3; ++kind) {
    EXPECT_EQ(KindOfRank(scenario, first[static_cast<std::size_t>(kind)]), kind);
    if (kind > 0) {
      EXPECT_EQ(KindOfRank(scenario, first[static_cast<std::size_t>(kind)] - 1), kind - 1);
    }
  }
  EXPECT_EQ(KindOfRank(scenario, 47), 2);
  EXPECT_EQ(KindsOf(scenario, std::vector<int>{40, 3, 25, 15}), (std::vector<int>{0, 2}));
}

TEST(NodeKinds, OneKindHasTheWholeClusterToItself) {
  const Scenario scenario = Loaded("[{topology: topologies/dgx-a100.yaml, nodes: 1}]");
  const Scenario own = OfKind(scenario, 1);
  EXPECT_EQ(own.cluster->nodes(), 3);
  EXPECT_EQ(own.cluster->gpu(), "a100-sxm-80gb");
  EXPECT_EQ(own.gpu->name, "a100-sxm-80gb");
  EXPECT_NE(own.calibration, scenario.calibration);
  EXPECT_TRUE(own.other_nodes.empty());
  EXPECT_EQ(OfKind(scenario, 0).cluster, scenario.cluster);
}

TEST(NodeKinds, WithoutOthersThereIsOne) {
  const Scenario scenario = Loaded("[]");
  EXPECT_EQ(KindCount(scenario), 1);
  EXPECT_EQ(KindOfRank(scenario, 15), 0);
}

}  // namespace
}  // namespace stepcast::scenario
