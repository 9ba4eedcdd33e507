#include "src/study/plan_port.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::study {
namespace {

using testing::HasSubstr;

constexpr const char* kMegatron = "scenarios/gpt3-175b-megatron/scenario.yaml";

// A change as "key: from -> to"; empty if the key did not change.
std::string ChangeOf(const PlanPort& port, const std::string& key) {
  for (const report::PortChange& change : port.changes) {
    if (change.key == key) return change.from + " -> " + change.to;
  }
  return "";
}

// 8 nodes of 8 GPUs with tensor 8 and pipeline 8, ported to as many nodes of another GPU.
TEST(PlanPortTest, KeepsWhatIsLegal) {
  const auto port = PortPlan({kMegatron, {}, "dgx-h100", std::nullopt});
  ASSERT_TRUE(port.has_value());
  EXPECT_EQ(port->ported.cluster->devices(), 64);
  EXPECT_EQ(port->ported.plan.parallelism.tensor, 8);
  EXPECT_EQ(port->ported.plan.parallelism.pipeline, 8);
  EXPECT_EQ(port->ported.plan.training.global_batch_size,
            port->from.plan.training.global_batch_size);
  EXPECT_EQ(ChangeOf(*port, "calibration"), "a100-sxm-80gb -> h100-sxm");
  EXPECT_EQ(ChangeOf(*port, "parallelism.pipeline"), "");
}

// On four nodes, tensor 8 leaves four stages; all settings compatible with the smaller degrees are
// kept.
TEST(PlanPortTest, DegreesBecomeDivisors) {
  const auto port = PortPlan({kMegatron, {}, "dgx-h100", 4});
  ASSERT_TRUE(port.has_value());
  EXPECT_EQ(port->ported.plan.parallelism.tensor, 8);
  EXPECT_EQ(port->ported.plan.parallelism.pipeline, 4);
  EXPECT_EQ(ChangeOf(*port, "parallelism.pipeline"), "8 -> 4");
  for (const report::PortChange& change : port->changes) EXPECT_FALSE(change.why.empty());
}

// 72 GPUs are not divisible into 64 ranks, nor the batch by 9 or 18 replicas.
TEST(PlanPortTest, MayLeaveGpusIdle) {
  const auto port = PortPlan({kMegatron, {}, "gb200-nvl72", 1});
  ASSERT_TRUE(port.has_value());
  EXPECT_EQ(port->ported.cluster->devices(), 64);
  EXPECT_EQ(port->ported.plan.parallelism.pipeline, 8);
  EXPECT_EQ(ChangeOf(*port, "cluster.devices"), " -> plan");
}

TEST(PlanPortTest, SaysWhatIsNoTopology) {
  const auto port = PortPlan({kMegatron, {}, "nonsense", std::nullopt});
  ASSERT_FALSE(port.has_value());
  EXPECT_EQ(port.error().front().location.file, "--to nonsense");
  EXPECT_THAT(port.error().front().hint, HasSubstr("stepcast list topologies"));
}

}  // namespace
}  // namespace stepcast::study
