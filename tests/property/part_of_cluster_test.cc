// Invariants of a job on part of the GPUs (cluster.devices), for random topologies and plans.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

struct Machine {
  const char* topology;
  int gpus;  // of a node
};

struct Case {
  Machine machine{};
  int nodes = 1;
  std::vector<std::string> set;
};

Case AnyCase() {
  Case any;
  any.machine = *rc::gen::element(Machine{"dgx-a100", 8}, Machine{"dgx-h100", 8},
                                  Machine{"l40s-4x25g", 4}, Machine{"a100-4x100g", 8},
                                  Machine{"pcie-8gpu", 8}, Machine{"gb200-nvl72", 72});
  any.nodes = any.machine.gpus > 8 ? 1 : *rc::gen::inRange(1, 4);
  any.set = {fmt::format("cluster.topology=topologies/{}.yaml", any.machine.topology),
             fmt::format("training.micro_batch_size={}", *rc::gen::inRange(1, 4)),
             *rc::gen::element<std::string>("data_parallel={framework: fsdp2, zero_stage: 3}",
                                            "data_parallel={framework: ddp, zero_stage: 0}",
                                            "data_parallel={framework: deepspeed, zero_stage: 2}")};
  return any;
}

Result<scenario::Scenario> Load(const Case& any, const std::string& nodes,
                                const std::string& devices) {
  static auto& cache = *new scenario::InputCache();
  std::vector<std::string> set = any.set;
  set.push_back("cluster.nodes=" + nodes);
  if (!devices.empty()) set.push_back("cluster.devices=" + devices);
  return scenario::LoadText(R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml}
training: {sequence_length: 256, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)",
                            "test", set, cache);
}

forecast::Forecast Of(const Result<scenario::Scenario>& scenario) {
  RC_ASSERT(scenario.has_value());
  auto run = forecast::Simulate(*scenario);
  RC_ASSERT(run.has_value());
  return std::move(run->forecast);
}

void CheckSame(const forecast::Forecast& a, const forecast::Forecast& b) {
  RC_ASSERT(a.step_time == b.step_time);
  RC_ASSERT(a.tokens_per_second == b.tokens_per_second);
  RC_ASSERT(a.tokens_per_second_per_gpu == b.tokens_per_second_per_gpu);
  RC_ASSERT(a.mfu == b.mfu);
  RC_ASSERT(a.communication_total == b.communication_total);
  RC_ASSERT(a.memory.peak == b.memory.peak);
  RC_ASSERT(a.memory.reserved == b.memory.reserved);
  RC_ASSERT(a.memory.outside == b.memory.outside);
}

RC_GTEST_PROP(PartOfCluster, AllGpusAreAsWithoutTheKey, ()) {
  const Case any = AnyCase();
  const std::string nodes = std::to_string(any.nodes);
  CheckSame(Of(Load(any, nodes, "")),
            Of(Load(any, nodes, std::to_string(any.nodes * any.machine.gpus))));
}

RC_GTEST_PROP(PartOfCluster, WholeNodesAreAClusterOfThatManyNodes, ()) {
  const Case any = AnyCase();
  const int nodes = *rc::gen::inRange(1, any.nodes + 1);
  CheckSame(Of(Load(any, std::to_string(nodes), "")),
            Of(Load(any, std::to_string(any.nodes), std::to_string(nodes * any.machine.gpus))));
}

// Rates count the used GPUs, however their number is stated.
RC_GTEST_PROP(PartOfCluster, RatesCountTheGpusThatAreUsed, ()) {
  const Case any = AnyCase();
  const int each = *rc::gen::inRange(1, any.machine.gpus + 1);
  const int devices = any.nodes * each;
  RC_PRE((devices + any.machine.gpus - 1) / any.machine.gpus == any.nodes);
  const auto scenario = Load(any, std::to_string(any.nodes), std::to_string(devices));
  RC_ASSERT(scenario.has_value());
  RC_ASSERT(scenario->idle_devices() == any.nodes * (any.machine.gpus - each));
  RC_ASSERT(scenario->plan.parallelism.data == devices);
  const forecast::Forecast forecast = Of(scenario);
  RC_ASSERT(std::abs(forecast.tokens_per_second_per_gpu * devices / forecast.tokens_per_second -
                     1) < 1e-12);
  Case by_plan = any;
  by_plan.set.push_back(fmt::format("parallelism.data={}", devices));
  CheckSame(forecast, Of(Load(by_plan, std::to_string(any.nodes), "plan")));
}

// One group on uncontended links: every fidelity is within 1 % of its price. Ranks are placed as
// the analytic cost assumes.
RC_GTEST_PROP(PartOfCluster, FidelitiesAgreeWhereNothingContends, ()) {
  Case any = AnyCase();
  RC_PRE(any.machine.gpus <= 8);
  const int each = *rc::gen::inRange(2, any.machine.gpus + 1);
  const std::string devices = std::to_string(any.nodes * each);
  RC_PRE((any.nodes * each + any.machine.gpus - 1) / any.machine.gpus == any.nodes);
  const std::string nodes = std::to_string(any.nodes);
  const double analytic = Of(Load(any, nodes, devices)).step_time.seconds();
  any.set.emplace_back("cluster.network=flow");
  const double flow = Of(Load(any, nodes, devices)).step_time.seconds();
  RC_ASSERT(std::abs(flow / analytic - 1) < 0.01);
}

}  // namespace
}  // namespace stepcast
