// Flow simulation of classes gives every rank the times of a flow simulation of all ranks.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/cost/collective_flows.h"
#include "src/forecast/forecast.h"
#include "src/forecast/simulated_ranks.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"
#include "src/simulate/simulate.h"

namespace stepcast::forecast {
namespace {

constexpr int kSteps = 3;

scenario::Scenario Loaded(const std::string& text, const std::vector<std::string>& set = {}) {
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", set, cache);
  if (!scenario) ADD_FAILURE() << Format(scenario.error()) << text;
  return *std::move(scenario);
}

// The ends of steps, by rank, with each rank simulated and its collectives as flows on the links.
std::vector<std::vector<Time>> OnAllRanks(const scenario::Scenario& scenario,
                                          const SimulatedRanks& by_class, std::size_t ranks) {
  std::vector<const simulate::RankClass*> of(ranks);
  for (const simulate::RankClass& own : by_class.classes) {
    for (const int rank : own.ranks) of[static_cast<std::size_t>(rank)] = &own;
  }
  std::deque<std::vector<program::ProcessGroup>> groups;
  std::vector<simulate::RankClass> classes;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto rank = static_cast<int>(i);
    groups.push_back(lowering::GroupsOf(*of[i]->program, rank));
    classes.push_back({.program = of[i]->program,
                       .prices = of[i]->prices,
                       .representative = rank,
                       .groups = &groups.back()});
  }
  const auto traffic = cost::RouteCollectives(scenario, classes, kSteps);
  if (!traffic) ADD_FAILURE() << Format(traffic.error());
  const auto timelines = simulate::Simulate(classes, {.steps = kSteps, .traffic = &*traffic});
  if (!timelines) ADD_FAILURE() << timelines.error().blocked.front();
  std::vector<std::vector<Time>> ends;
  for (const program::Timeline& timeline : *timelines) ends.push_back(timeline.step_ends);
  return ends;
}

struct Compared {
  std::size_t classes = 0;
  double worst = 0;  // relative difference of a step's end
};

Compared Compare(const scenario::Scenario& scenario) {
  const auto lowered = PricedClassesOf(scenario);
  if (!lowered) ADD_FAILURE() << Format(lowered.error());
  const auto ranks = SimulatedRanksOf(scenario, *lowered, kSteps);
  if (!ranks) ADD_FAILURE() << Format(ranks.error());
  const auto timelines =
      simulate::Simulate(ranks->classes, {.steps = kSteps, .traffic = &*ranks->traffic});
  if (!timelines) ADD_FAILURE() << timelines.error().blocked.front();
  std::size_t count = 0;
  for (const simulate::RankClass& own : ranks->classes) count += own.ranks.size();
  const auto all = OnAllRanks(scenario, *ranks, count);
  Compared compared{.classes = ranks->classes.size()};
  for (std::size_t c = 0; c < ranks->classes.size(); ++c) {
    for (const int rank : ranks->classes[c].ranks) {
      for (std::size_t step = 0; step < kSteps; ++step) {
        const double of_rank = all[static_cast<std::size_t>(rank)][step].seconds();
        const double of_class = (*timelines)[c].step_ends[step].seconds();
        compared.worst = std::max(compared.worst, std::abs(of_class / of_rank - 1));
      }
    }
  }
  return compared;
}

// Nodes of one or two kinds, with any number of GPUs and cards, below one switch or two levels of
// switches.
struct AnyCluster {
  std::string text;
  int gpus = 1;
  int nodes = 1;
  int kinds = 1;
};

// A topology of nodes with this many GPUs; each line starts with `indent`.
std::string DrawTopology(int gpus, std::string_view indent) {
  const int switches = gpus % 2 == 0 ? *rc::gen::element(1, 2) : 1;
  const int nics = *rc::gen::element(1, 2);
  const bool nvlink = *rc::gen::arbitrary<bool>();
  const std::vector<std::string> lines = {
      "name: any",
      "node:",
      fmt::format("  gpu: {}", nvlink ? "h100-sxm" : "l40s"),
      "  processor: amd",
      fmt::format("  devices: {{gpu: {}, pcie_switch: {}, cpu: 1, nic: {}{}}}", gpus, switches,
                  nics, nvlink ? ", nvswitch: 1" : ""),
      "  links:",
      fmt::format("    - {{kind: pcie, from: gpu, to: pcie_switch, latency: 150 ns, bandwidth: {} "
                  "GB/s}}",
                  *rc::gen::element(16, 32)),
      "    - {kind: pcie, from: nic, to: cpu, latency: 150 ns, bandwidth: 16 GB/s}",
      fmt::format("    - {{kind: pcie, from: pcie_switch, to: cpu, latency: 150 ns, bandwidth: {} "
                  "GB/s}}",
                  *rc::gen::element(16, 32)),
      nvlink ? "    - {kind: nvlink, from: gpu, to: nvswitch, count: 4, latency: 250 ns, "
               "bandwidth: 25 GB/s}"
             : "",
      "fabric:",
      *rc::gen::arbitrary<bool>()
          ? std::string("  kind: one-switch")
          : fmt::format("  kind: fat-tree\n{0}  nodes_per_leaf: {1}\n{0}  spines: {2}\n"
                        "{0}  uplink: {{latency: 300 ns}}\n{0}  oversubscription: {3}",
                        indent, *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 3),
                        *rc::gen::element(1, 2, 4)),
      fmt::format("  link: {{latency: 600 ns, bandwidth: {} Gbps}}",
                  *rc::gen::element(25, 100, 400))};
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}{}\n", indent, line);
  return text;
}

AnyCluster DrawCluster() {
  AnyCluster cluster;
  cluster.gpus = *rc::gen::element(1, 2, 3, 4);
  const int first = *rc::gen::inRange(1, 7);
  const int others = *rc::gen::weightedElement<int>({{3, 0}, {1, 1}, {1, 2}, {1, 3}});
  cluster.nodes = first + others;
  cluster.kinds = others > 0 ? 2 : 1;
  std::string broken;
  if (*rc::gen::weightedElement<bool>({{2, false}, {1, true}})) {
    broken += "  slow_links: [{from: node0/gpu0, to: node0/pcie_switch0, bandwidth: 3 GB/s}]\n";
  }
  if (*rc::gen::weightedElement<bool>({{2, false}, {1, true}})) {
    broken += fmt::format("  slow_devices: [{{device: node{}/gpu{}, speed: 0.8}}]\n",
                          *rc::gen::inRange(0, cluster.nodes), *rc::gen::inRange(0, cluster.gpus));
  }
  cluster.text = fmt::format(
      "stepcast: 1\nmodel: models/gpt2.yaml\ncluster:\n  nodes: {}\n  network: flow\n{}  "
      "topology:\n{}",
      first, broken, DrawTopology(cluster.gpus, "    "));
  if (others > 0) {
    cluster.text += fmt::format("  other_nodes:\n    - nodes: {}\n      topology:\n{}", others,
                                DrawTopology(cluster.gpus, "        "));
  }
  return cluster;
}

std::vector<int> DivisorsOf(int number, std::vector<int> among) {
  std::erase_if(among, [number](int divisor) { return number % divisor != 0; });
  return among;
}

// A plan with tensor x context x pipeline x data parallelism, or with shard groups and replicas.
std::string DrawPlan(const AnyCluster& cluster) {
  const int ranks = cluster.gpus * cluster.nodes;
  if (*rc::gen::arbitrary<bool>()) {
    std::vector<int> shards;
    for (int size = 1; size <= ranks; ++size) {
      const bool inside = cluster.gpus % size == 0;
      const bool whole = size % cluster.gpus == 0 && ranks % size == 0;
      if (inside || whole) shards.push_back(size);
    }
    return fmt::format(
        "training: {{sequence_length: 576, micro_batch_size: 1, gradient_accumulation: 1,\n"
        "           precision: bf16, optimizer: adamw}}\n"
        "data_parallel: {{zero_stage: 3, framework: fsdp2, shard_group_size: {}}}\n",
        *rc::gen::elementOf(shards));
  }
  const int tensor = *rc::gen::elementOf(DivisorsOf(ranks, {1, 2, 3, 4}));
  const int context = *rc::gen::elementOf(DivisorsOf(ranks / tensor, {1, 1, 2, 3, 4}));
  const int pipeline = *rc::gen::elementOf(DivisorsOf(ranks / tensor / context, {1, 2, 3, 4}));
  const char* const method = *rc::gen::element("ring", "all_gather", "all_to_all");
  return fmt::format(
      "training: {{sequence_length: 576, micro_batch_size: 1, gradient_accumulation: {},\n"
      "           precision: bf16, optimizer: adamw}}\n"
      "parallelism: {{tensor: {}, sequence_parallel: {}, context: {}, context_method: {},"
      " pipeline: {}}}\n"
      "data_parallel: {{zero_stage: {}, framework: megatron}}\n",
      *rc::gen::inRange(1, 3) * pipeline, tensor, tensor > 1, context,
      12 % (tensor * context) == 0 ? method : "ring", pipeline, *rc::gen::element(0, 1));
}

RC_GTEST_PROP(FlowClasses, GiveEveryRankTheTimesOfFlowOnAllRanks, ()) {
  const AnyCluster cluster = DrawCluster();
  RC_PRE(cluster.gpus * cluster.nodes > 1);
  const std::string text = cluster.text + DrawPlan(cluster);
  RC_LOG() << text;
  const Compared compared = Compare(Loaded(text));
  RC_LOG() << compared.classes << " classes\n";
  RC_TAG(compared.classes > 1 ? "several classes" : "one class");
  // Between kinds of nodes a flow has the slower kind's price, and its shares are rounded once
  // more.
  RC_ASSERT(compared.worst < (cluster.kinds > 1 ? 1e-7 : 1e-9));
}

constexpr const char* kTwoLeaves = R"(
stepcast: 1
model: models/gpt2.yaml
cluster:
  nodes: 8
  network: flow
  topology:
    name: two leaves
    node:
      gpu: h100-sxm
      processor: amd
      devices: {gpu: 4, nvswitch: 1, pcie_switch: 4, cpu: 1, nic: 4}
      links:
        - {kind: nvlink, from: gpu, to: nvswitch, count: 18, latency: 250 ns, bandwidth: 25 GB/s}
        - {kind: pcie, from: gpu, to: pcie_switch, latency: 150 ns, bandwidth: 64 GB/s}
        - {kind: pcie, from: nic, to: pcie_switch, latency: 150 ns, bandwidth: 64 GB/s}
        - {kind: pcie, from: pcie_switch, to: cpu, latency: 150 ns, bandwidth: 64 GB/s}
    fabric:
      kind: fat-tree
      link: {latency: 600 ns, bandwidth: 50 Gbps}
      nodes_per_leaf: 4
      spines: 2
      uplink: {latency: 300 ns}
      oversubscription: 1
training: {sequence_length: 512, micro_batch_size: 1, gradient_accumulation: 4, precision: bf16,
           optimizer: adamw}
parallelism: {tensor: 4, sequence_parallel: true, pipeline: 2}
data_parallel: {zero_stage: 1, framework: megatron}
)";

// Two stages of four nodes each, every stage below a separate leaf: one class per stage.
TEST(FlowClasses, AStageIsAClassWhereNothingBreaksTheSymmetry) {
  EXPECT_EQ(Compare(Loaded(kTwoLeaves)).classes, 2U);
}

// A card at a tenth of its speed distinguishes its GPU's node in both stages, and the GPU in it.
TEST(FlowClasses, ASlowCardTellsRanksApart) {
  const Compared compared =
      Compare(Loaded(kTwoLeaves, {"cluster.slow_links=[{from: node0/nic1, to: leaf0, "
                                  "bandwidth: 625 MB/s}]"}));
  EXPECT_GT(compared.classes, 2U);
  EXPECT_LT(compared.classes, 32U);
  EXPECT_LT(compared.worst, 1e-9);
}

}  // namespace
}  // namespace stepcast::forecast
