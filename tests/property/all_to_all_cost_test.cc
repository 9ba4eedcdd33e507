// An all-to-all costs the same as a row of `stepcast collective` and within a step, where
// context-parallel ranks exchange heads.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/cost/price.h"
#include "src/forecast/collective_forecast.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

struct Machine {
  const char* topology;
  const char* precision;
  std::vector<int> nodes;
  int gpus;  // of a node
};

const std::vector<Machine>& Machines() {
  static const std::vector<Machine> machines = {
      {"topologies/dgx-h100.yaml", "bf16", {1, 2, 4}, 8},
      {"topologies/dgx-a100.yaml", "bf16", {1, 2}, 8},
      {"topologies/aws-p4d.yaml", "bf16", {1, 2, 4}, 8},
      {"topologies/dgx-b200.yaml", "bf16", {1, 2}, 8},
      {"topologies/pcie-8gpu.yaml", "bf16", {1}, 8},
      {"topologies/dgx-1-v100.yaml", "fp16", {1}, 8},
  };
  return machines;
}

scenario::Scenario Loaded(const Machine& machine, int nodes, int context, std::int64_t sequence,
                          std::int64_t hidden) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {{kind: transformer, family: llama, num_hidden_layers: 1, hidden_size: {},
         num_attention_heads: 32, num_key_value_heads: 32, intermediate_size: 256,
         vocab_size: 128}}
cluster: {{topology: {}, nodes: {}}}
training: {{sequence_length: {}, micro_batch_size: 1, gradient_accumulation: 1, precision: {},
           optimizer: adamw}}
parallelism: {{context: {}, context_method: all_to_all}}
data_parallel: {{zero_stage: 1, framework: megatron}}
)",
      hidden, machine.topology, nodes, sequence, machine.precision, context);
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  RC_ASSERT(scenario.has_value());
  return *std::move(scenario);
}

TEST(AllToAll, CostsInAStepWhatTheTableOfCollectivesSays) {
  const bool holds = rc::check([] {
    const Machine& machine = **rc::gen::elementOf([] {
      std::vector<const Machine*> all;
      for (const Machine& one : Machines()) all.push_back(&one);
      return all;
    }());
    const int nodes = *rc::gen::elementOf(machine.nodes);
    const int context = *rc::gen::elementOf(std::vector<int>{2, 4, 8, 16, 32});
    RC_PRE(context <= nodes * machine.gpus);
    const std::int64_t sequence = *rc::gen::elementOf(std::vector<std::int64_t>{512, 4096, 65536});
    const std::int64_t hidden = *rc::gen::elementOf(std::vector<std::int64_t>{1024, 4096});
    const scenario::Scenario scenario = Loaded(machine, nodes, context, sequence, hidden);

    const program::Program program = lowering::LowerRank(scenario, {.rank = 0});
    const auto prices = cost::Price(program, scenario);
    RC_ASSERT(prices.has_value());
    int found = 0;
    for (std::size_t i = 0; i < program.collectives.size(); ++i) {
      const program::Collective& collective = program.collectives[i];
      if (collective.kind != CollectiveKind::kAllToAll) continue;
      ++found;
      const int span = std::max(1, context / machine.gpus);
      const auto table = forecast::ForecastCollective(
          scenario, CollectiveKind::kAllToAll,
          {.name = "", .ranks = context, .nodes = span, .siblings = context < nodes * machine.gpus},
          collective.bytes, collective.bytes);
      RC_ASSERT(table.has_value());
      RC_ASSERT(table->rows.size() == 1u);
      RC_LOG() << machine.topology << ", " << nodes << " nodes, context " << context << ", "
               << collective.bytes.count() << " B: " << table->rows[0].time.microseconds()
               << " us in the table, " << prices->collectives[i].demand.uncontended().microseconds()
               << " in the step\n";
      RC_ASSERT(table->rows[0].time == prices->collectives[i].demand.uncontended());
    }
    RC_ASSERT(found > 0);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace stepcast
