// Steps whose collectives use the cluster's links, at three fidelities.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/forecast/collective_forecast.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

// The gradients of these layers take longer to send than to compute, so communication is exposed.
constexpr const char* kFlat = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 6, parameters: [16777216, 4096], forward: 1 ms, backward: 2 ms,
       activation: 64 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 6, memory: 80 GiB, link: {latency: 5 us, bandwidth: 10 GB/s}}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

constexpr const char* kDgx = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2, collective_algorithm: ring}
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw, dispatch: {module: 0 us, autograd: 0 us}}
data_parallel: {zero_stage: 0, framework: ddp}
)";

// Two nodes, each below a separate leaf.
constexpr const char* kFatTree = R"(
stepcast: 1
model: models/gpt2.yaml
cluster:
  collective_algorithm: ring
  nodes: 2
  topology:
    name: two leaves
    node:
      gpu: h100-sxm
      devices: {gpu: 4, nvswitch: 1, pcie_switch: 4, cpu: 1, nic: 4}
      links:
        - {kind: nvlink, from: gpu, to: nvswitch, count: 18, latency: 250 ns, bandwidth: 25 GB/s}
        - {kind: pcie, from: gpu, to: pcie_switch, latency: 150 ns, bandwidth: 64 GB/s}
        - {kind: pcie, from: nic, to: pcie_switch, latency: 150 ns, bandwidth: 64 GB/s}
        - {kind: pcie, from: pcie_switch, to: cpu, latency: 150 ns, bandwidth: 64 GB/s}
    fabric:
      kind: fat-tree
      link: {latency: 600 ns, bandwidth: 50 Gbps}
      nodes_per_leaf: 1
      spines: 2
      uplink: {latency: 300 ns}
      oversubscription: 1
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw, dispatch: {module: 0 us, autograd: 0 us}}
data_parallel: {zero_stage: 3, framework: fsdp2, shard_group_size: 4}
)";

scenario::Scenario Loaded(const char* text, std::vector<std::string> set) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", set, cache);
  if (!scenario) ADD_FAILURE() << Format(scenario.error());
  return std::move(*scenario);
}

Forecast ForecastOf(const char* text, const std::string& network,
                    std::vector<std::string> set = {}) {
  set.push_back("cluster.network=" + network);
  auto run = Simulate(Loaded(text, std::move(set)));
  if (!run) ADD_FAILURE() << Format(run.error());
  return run ? run->forecast : Forecast();
}

double StepTime(const char* text, const std::string& network, std::vector<std::string> set = {}) {
  return ForecastOf(text, network, std::move(set)).step_time.microseconds();
}

void ExpectAgreement(const char* text, const std::vector<std::string>& set) {
  const double analytic = StepTime(text, "analytic", set);
  EXPECT_NEAR(StepTime(text, "flow", set) / analytic, 1, 0.01);
  EXPECT_NEAR(StepTime(text, "message", set) / analytic, 1, 0.01);
}

TEST(Fidelity, AgreesOnFlatClusters) {
  ExpectAgreement(kFlat, {});
  ExpectAgreement(kFlat, {"cluster.topology.devices=9"});
  ExpectAgreement(kFlat, {"cluster.topology.link.latency=200 us"});
  ExpectAgreement(kFlat, {"data_parallel.zero_stage=3", "data_parallel.framework=fsdp2"});
}

TEST(Fidelity, AgreesOnNodesWithSwitchesAndRails) {
  ExpectAgreement(kDgx, {"cluster.nodes=1"});
  ExpectAgreement(kDgx, {});
  ExpectAgreement(kDgx, {"cluster.nodes=3"});
  ExpectAgreement(kDgx, {"data_parallel.zero_stage=3", "data_parallel.framework=fsdp2"});
}

TEST(Fidelity, AgreesOnTwoLevelsThatDoNotMeet) {
  // Shard groups within a node, over NVLink; replica groups between nodes, each over a separate
  // NIC.
  ExpectAgreement(kFatTree, {});
}

// Four NICs are below a leaf whose uplink has the capacity of one NIC. The four replica groups
// share it.
TEST(Fidelity, NarrowSpineSlowsGroupsThatShareIt) {
  const std::vector<std::string> narrow = {"cluster.topology.fabric.oversubscription=4"};
  ExpectAgreement(kFatTree, narrow);
  EXPECT_GT(StepTime(kFatTree, "analytic", narrow), 1.5 * StepTime(kFatTree, "analytic"));
}

TEST(Fidelity, SlowLinkSlowsTheStep) {
  // A tenth of a NIC's bandwidth.
  const std::vector<std::string> slow = {
      "cluster.slow_links=[{from: node0/nic1, to: leaf0, bandwidth: 625 MB/s}]"};
  const double analytic = StepTime(kFatTree, "analytic", slow);
  EXPECT_DOUBLE_EQ(analytic, StepTime(kFatTree, "analytic"));
  const double flow = StepTime(kFatTree, "flow", slow);
  EXPECT_GT(flow, 1.5 * analytic);
  EXPECT_NEAR(StepTime(kFatTree, "message", slow) / flow, 1, 0.02);
}

TEST(Fidelity, FailedLinkLeavesTheOtherWays) {
  // Half of the leaf's uplinks have failed: as if oversubscription were doubled.
  const std::vector<std::string> failed = {"cluster.topology.fabric.oversubscription=2",
                                           "cluster.slow_links=[{from: leaf0, to: spine0}]"};
  const double flow = StepTime(kFatTree, "flow", failed);
  EXPECT_GT(flow, StepTime(kFatTree, "flow", {"cluster.topology.fabric.oversubscription=2"}));
  EXPECT_NEAR(StepTime(kFatTree, "message", failed) / flow, 1, 0.02);
}

TEST(Fidelity, IsTheSameEveryTime) {
  const std::vector<std::string> narrow = {"cluster.topology.fabric.oversubscription=4"};
  for (const char* network : {"flow", "message"}) {
    const Forecast one = ForecastOf(kFatTree, network, narrow);
    const Forecast other = ForecastOf(kFatTree, network, narrow);
    EXPECT_EQ(one.step_time, other.step_time);
    EXPECT_EQ(one.communication_total, other.communication_total);
    EXPECT_EQ(one.memory.peak, other.memory.peak);
  }
}

double CollectiveTime(const std::string& network, CollectiveKind op,
                      std::vector<std::string> set = {}) {
  set.push_back("cluster.network=" + network);
  const auto forecast = ForecastCollective(Loaded(kFatTree, set), op, {}, MiB(64), MiB(64));
  if (!forecast) ADD_FAILURE() << Format(forecast.error());
  return forecast->rows.front().time.microseconds();
}

// `stepcast collective --network`: a single collective takes the same time at every fidelity, and a
// slow link shows when links are simulated.
TEST(Fidelity, OneCollectiveAloneTakesItsPrice) {
  const std::vector<std::string> slow = {
      "cluster.slow_links=[{from: node0/nic0, to: leaf0, bandwidth: 625 MB/s}]"};
  for (CollectiveKind op :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduce,
        CollectiveKind::kAllToAll, CollectiveKind::kGather, CollectiveKind::kSendRecv}) {
    const double analytic = CollectiveTime("analytic", op);
    EXPECT_NEAR(CollectiveTime("flow", op) / analytic, 1, 0.01) << Name(op);
    EXPECT_NEAR(CollectiveTime("message", op) / analytic, 1, 0.02) << Name(op);
    EXPECT_EQ(CollectiveTime("analytic", op, slow), analytic) << Name(op);
    EXPECT_GT(CollectiveTime("flow", op, slow), 1.5 * analytic) << Name(op);
    EXPECT_GT(CollectiveTime("message", op, slow), 1.5 * analytic) << Name(op);
  }
}

constexpr const char* kCubeMesh = R"(
stepcast: 1
model: {kind: transformer, family: llama, hidden_size: 1024, num_hidden_layers: 8,
        num_attention_heads: 8, intermediate_size: 1024, vocab_size: 512}
cluster: {topology: topologies/dgx-1-v100.yaml, nodes: 1}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 8, precision: fp16,
           optimizer: adamw, compile: true}
data_parallel: {zero_stage: 0, framework: megatron}
)";

// In a DGX-1 each GPU has NVLinks to four of the seven others. Another GPU relays the remaining
// traffic, and nothing uses PCIe, whose 6 GB/s between the processors are a tenth of that. A ring
// of five GPUs returns from the fifth through another one.
TEST(Fidelity, GpusRelayWhereNvlinkDoesNotJoinAll) {
  for (const auto& [op, ranks] :
       {std::pair(CollectiveKind::kAllToAll, 8), std::pair(CollectiveKind::kSendRecv, 8),
        std::pair(CollectiveKind::kScatter, 8), std::pair(CollectiveKind::kGather, 8),
        std::pair(CollectiveKind::kAllToAll, 5), std::pair(CollectiveKind::kAllReduce, 8),
        std::pair(CollectiveKind::kAllReduce, 5), std::pair(CollectiveKind::kReduceScatter, 5),
        std::pair(CollectiveKind::kAllGather, 7)}) {
    const auto time = [&, op = op, ranks = ranks](const char* network) {
      const auto forecast = ForecastCollective(
          Loaded(kCubeMesh, {std::string("cluster.network=") + network}), op,
          {.name = {}, .ranks = ranks, .nodes = 1, .siblings = false}, MiB(256), MiB(256));
      if (!forecast) ADD_FAILURE() << Format(forecast.error());
      return forecast->rows.front().time.microseconds();
    };
    const double analytic = time("analytic");
    // 6 GB/s are 45 ms for 256 MiB.
    EXPECT_LT(analytic, 20'000) << Name(op);
    EXPECT_NEAR(time("flow") / analytic, 1, 0.01) << Name(op);
    EXPECT_NEAR(time("message") / analytic, 1, 0.02) << Name(op);
  }
}

// In an all-to-all exchange, the analytic price uses the mesh's busiest link with the messages of
// all distances. The flow simulation counts only the messages that cross each link.
TEST(Fidelity, StepsOfACubeMeshAgree) {
  struct Case {
    std::vector<std::string> set;
    double tolerance;
  };
  for (const Case& c :
       {Case{{"parallelism.context=8", "parallelism.context_method=ring"}, 0.01},
        Case{{"parallelism.context=8", "parallelism.context_method=all_gather"}, 0.01},
        Case{{"parallelism.context=8", "parallelism.context_method=all_to_all"}, 0.1},
        Case{{"parallelism.pipeline=8"}, 0.01}, Case{{"parallelism.pipeline=4"}, 0.01}}) {
    const double analytic = StepTime(kCubeMesh, "analytic", c.set);
    EXPECT_NEAR(StepTime(kCubeMesh, "flow", c.set) / analytic, 1, c.tolerance) << c.set.back();
    EXPECT_NEAR(StepTime(kCubeMesh, "message", c.set) / analytic, 1, c.tolerance) << c.set.back();
  }
}

TEST(Fidelity, LinksThatDoNotExistAreNamed) {
  const auto run = Simulate(Loaded(
      kFatTree, {"cluster.network=flow", "cluster.slow_links=[{from: node0/nic9, to: leaf0}]"}));
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().front().code, "cost.no-network");
  EXPECT_NE(run.error().front().message.find("'node0/nic9'"), std::string::npos);
}

// All wrong links are reported at once, each at its own position.
TEST(Fidelity, EveryWrongSlowLinkHasItsPosition) {
  std::string text = kFatTree;
  constexpr std::string_view kCluster = "cluster:\n";
  text.insert(text.find(kCluster) + kCluster.size(),
              "  slow_links:\n"
              "    - {from: node0/nic0, to: leaf0, bandwidth: 1 GB/s}\n"
              "    - {from: node0/nic9, to: leaf0}\n"
              "    - {from: leaf0, to: spine7}\n");
  const auto run = Simulate(Loaded(text.c_str(), {"cluster.network=flow"}));
  ASSERT_FALSE(run.has_value());
  ASSERT_EQ(run.error().size(), 2U);
  // The text begins with an empty line, 'stepcast' and 'model': 'cluster' is line 4.
  EXPECT_EQ(run.error()[0].location.line, 7);
  EXPECT_EQ(run.error()[0].location.column, 7);
  EXPECT_EQ(run.error()[1].location.line, 8);
  EXPECT_NE(run.error()[1].message.find("'spine7'"), std::string::npos);
}

TEST(Fidelity, TooManyMessagesAreRefused) {
  const auto run =
      Simulate(Loaded(kFlat, {"cluster.network=message", "cluster.topology.devices=8000",
                              "parallelism.data=8000"}));
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().front().code, "cost.too-many-messages");
  EXPECT_NE(run.error().front().hint.find("--network flow"), std::string::npos);
}

// Every rank runs rank 0's program with its own groups. That must equal its lowered program.
TEST(Fidelity, GroupsAreThoseOfEachRanksProgram) {
  for (const char* set : {"data_parallel.zero_stage=3", "data_parallel.reshard_after_forward=2"}) {
    const scenario::Scenario scenario = Loaded(kFatTree, {set});
    const program::Program program = lowering::LowerRank(scenario);
    for (int rank = 0; rank < 8; ++rank) {
      const program::Program own = lowering::LowerRank(scenario, {.rank = rank});
      const auto groups = lowering::GroupsOf(program, rank);
      ASSERT_EQ(groups.size(), own.groups.size());
      for (std::size_t i = 0; i < groups.size(); ++i) {
        EXPECT_EQ(groups[i].name, own.groups[i].name);
        EXPECT_EQ(groups[i].ranks, own.groups[i].ranks);
      }
      EXPECT_EQ(program.step.size(), own.step.size());
    }
  }
}

}  // namespace
}  // namespace stepcast::forecast
