// Context parallelism sends the same messages at every fidelity. On clusters whose GPUs share
// cards, an analytic forecast must agree with a flow simulation.

#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

double StepSeconds(const std::string& text, const std::string& network) {
  scenario::InputCache cache;
  const auto scenario = scenario::LoadText(text, "test", {"cluster.network=" + network}, cache);
  if (!scenario) {
    ADD_FAILURE() << Format(scenario.error()) << text;
    return 0;
  }
  const auto run = Simulate(*scenario);
  if (!run) ADD_FAILURE() << Format(run.error()) << text;
  return run ? run->forecast.step_time.seconds() : 0;
}

// Nodes of 2, 4 or 8 GPUs. Each GPU has a card, or 2, 4 or 8 GPUs share one at their PCIe switch.
struct AnyNodes {
  int gpus = 0;
  int nodes = 0;
  std::string text;
};

AnyNodes DrawNodes() {
  AnyNodes any{.gpus = *rc::gen::element(2, 4, 8), .nodes = *rc::gen::inRange(1, 5), .text = {}};
  int cards = any.gpus;
  while (cards > 1 && *rc::gen::arbitrary<bool>()) cards /= 2;
  const bool nvlink = *rc::gen::arbitrary<bool>();
  const int pcie = *rc::gen::element(16, 32, 64);
  std::string links;
  for (const char* between :
       {"from: gpu, to: pcie_switch", "from: nic, to: pcie_switch", "from: pcie_switch, to: cpu"}) {
    links += fmt::format("        - {{kind: pcie, {}, latency: 150 ns, bandwidth: {} GB/s}}\n",
                         between, pcie);
  }
  if (nvlink) {
    links += fmt::format(
        "        - {{kind: nvlink, from: gpu, to: nvswitch, count: {}, latency: 250 ns, "
        "bandwidth: 25 GB/s}}\n",
        *rc::gen::element(4, 12, 18));
  }
  std::string fabric = "      kind: one-switch\n";
  if (*rc::gen::arbitrary<bool>()) {
    fabric = fmt::format(
        "      kind: fat-tree\n      nodes_per_leaf: {}\n      spines: 2\n"
        "      uplink: {{latency: 300 ns}}\n      oversubscription: {}\n",
        *rc::gen::inRange(1, 4), *rc::gen::element(1, 2));
  }
  any.text = fmt::format(
      R"(
cluster:
  nodes: {}
  topology:
    name: any
    node:
      gpu: {}
      processor: {}
      devices: {{gpu: {}, pcie_switch: {}, cpu: 1, nic: {}{}}}
      links:
{}    fabric:
{}      link: {{latency: 600 ns, bandwidth: {} Gbps}}
)",
      any.nodes, nvlink ? "h100-sxm" : "l40s",
      *rc::gen::element<std::string>("amd", "intel-sapphire-rapids"), any.gpus, cards, cards,
      nvlink ? ", nvswitch: 1" : "", links, fabric, *rc::gen::element(25, 50, 100, 200, 400));
  return any;
}

RC_GTEST_PROP(ContextFidelity, AnalyticStepsTakeAsLongAsFlow, ()) {
  const AnyNodes cluster = DrawNodes();
  const int ranks = cluster.gpus * cluster.nodes;
  std::vector<int> degrees;
  for (int degree = 2; degree <= ranks && degree <= 16; ++degree) {
    const bool fits = cluster.gpus % degree == 0 || degree % cluster.gpus == 0;
    if (ranks % degree == 0 && fits) degrees.push_back(degree);
  }
  const int context = *rc::gen::elementOf(degrees);
  const auto method = *rc::gen::element<std::string>("ring", "all_gather", "all_to_all");
  // Heads divisible by every degree, and sequences with two chunks per rank.
  const std::string text =
      fmt::format(R"(
stepcast: 1
model: {{kind: transformer, family: llama, hidden_size: {0}, num_hidden_layers: 2,
        num_attention_heads: {1}, intermediate_size: {0}, vocab_size: 512}}
training: {{sequence_length: {2}, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw, compile: true}}
parallelism: {{context: {3}, context_method: {4}}}
data_parallel: {{zero_stage: {5}, framework: megatron}}
)",
                  64 * context, context, 256 * context * *rc::gen::element(1, 4, 16), context,
                  method, *rc::gen::element(0, 1)) +
      cluster.text;
  const double analytic = StepSeconds(text, "analytic");
  const double flow = StepSeconds(text, "flow");
  RC_LOG() << text << " analytic " << analytic << " flow " << flow << "\n";
  RC_ASSERT(analytic <= flow * 1.02);
  RC_ASSERT(flow <= analytic * 1.02);
}

}  // namespace
}  // namespace stepcast::forecast
