// Upper bounds of memory under FSDP. Those of fsdp2 are PyTorch's, from its test of training memory
// (pytorch/pytorch@0334530dcec7, test/distributed/_composable/fsdp/test_fully_shard_memory.py). For
// any number of blocks they follow its design: one unit in use, one being gathered, one unit's
// gradients, and one reduce-scatter input. Those of fsdp1 count what its rate limiter allows in
// flight.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"
#include "tests/property/flat_scenario.h"

namespace stepcast {
namespace {

using program::Category;
using program::Opcode;

// The most bytes of parameters, gradients and gathered units allocated at once in each phase, in
// host order. Optimizer states count only in the optimizer's phase.
std::array<std::int64_t, program::kPhases> Peaks(const program::Program& program) {
  std::array<std::int64_t, program::kPhases> peaks{};
  std::int64_t states = 0, optimizer = 0;
  const auto change = [&](const program::Instruction& instruction) {
    if (instruction.opcode != Opcode::kAllocate && instruction.opcode != Opcode::kRelease) return;
    const program::Buffer& buffer = program.buffers[instruction.operand];
    const std::int64_t bytes =
        instruction.opcode == Opcode::kAllocate ? buffer.size.count() : -buffer.size.count();
    switch (buffer.category) {
      case Category::kActivation:
      case Category::kWorkspace:
        return;
      case Category::kOptimizer:
        optimizer += bytes;
        return;
      default:
        states += bytes;
    }
  };
  for (const program::Instruction& instruction : program.prologue) change(instruction);
  for (const program::Instruction& instruction : program.step) {
    change(instruction);
    std::int64_t& peak = peaks[static_cast<std::size_t>(instruction.phase)];
    const bool updates = instruction.phase == program::Phase::kOptimizer;
    peak = std::max(peak, states + (updates ? optimizer : 0));
  }
  return peaks;
}

struct Sizes {
  std::int64_t unit = 0;   // largest block, gathered, elements
  std::int64_t model = 0;  // all blocks gathered
  std::int64_t shard = 0;  // bytes that a rank keeps
};

struct Case {
  std::vector<TestLayer> layers;
  int ranks = 2;
};

// Blocks of a few matrices; layer lists have no root.
Case AnyCase() {
  Case c;
  c.ranks = *rc::gen::inRange(2, 17);
  const int layers = *rc::gen::inRange(1, 8);
  for (int i = 0; i < layers; ++i) {
    TestLayer layer;
    const int tensors = *rc::gen::inRange(1, 4);
    for (int t = 0; t < tensors; ++t) {
      layer.parameters.push_back(*rc::gen::inRange<std::int64_t>(1, 100'000));
    }
    layer.forward = Microseconds(*rc::gen::inRange<std::int64_t>(1, 200));
    layer.backward = Microseconds(*rc::gen::inRange<std::int64_t>(1, 400));
    c.layers.push_back(layer);
  }
  return c;
}

scenario::Scenario ScenarioOf(const Case& c, plan::Framework framework, bool reshards) {
  scenario::Scenario scenario = FlatScenario(ListOf(c.layers, Microseconds(1)),
                                             {.devices = c.ranks,
                                              .latency = Microseconds(1),
                                              .bandwidth = Bandwidth::GigabytesPerSecond(10)});
  scenario.plan.data_parallel.framework = framework;
  scenario.plan.data_parallel.zero_stage = reshards ? 3 : 2;
  scenario.plan.data_parallel.reshard_after_forward = reshards;
  return scenario;
}

// fsdp2 shards every tensor separately, fsdp1 a whole unit.
Sizes SizesOf(const Case& c, plan::Framework framework) {
  Sizes sizes;
  for (const TestLayer& layer : c.layers) {
    std::int64_t shard = 0, exact = 0;
    for (const std::int64_t elements : layer.parameters) {
      shard += (elements + c.ranks - 1) / c.ranks;
      exact += elements;
    }
    if (framework == plan::Framework::kFsdp1) shard = (exact + c.ranks - 1) / c.ranks;
    sizes.unit = std::max(sizes.unit, shard * c.ranks);
    sizes.model += shard * c.ranks;
    sizes.shard += shard;
  }
  return sizes;
}

void SetTypes(scenario::Scenario& scenario, DataType compute, DataType kept, DataType reduced) {
  scenario.plan.training.precision = compute;
  scenario.plan.training.parameter_dtype = kept;
  scenario.plan.training.gradient_dtype = kept;
  scenario.plan.training.reduce_dtype = reduced;
}

// Forward: the shards, the unit in use, its gather buffer, and the next one's. Backward: shards of
// parameters and gradients, the same less one gather buffer, gradients, and the last
// reduce-scatter's input.
RC_GTEST_PROP(Fsdp2Memory, StaysInsideTheFrameworksBounds, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c, plan::Framework::kFsdp2, true);
  const auto [compute, kept, reduced] =
      *rc::gen::element(std::tuple{DataType::kFp32, DataType::kFp32, DataType::kFp32},
                        std::tuple{DataType::kBf16, DataType::kFp32, DataType::kFp32},
                        std::tuple{DataType::kBf16, DataType::kFp32, DataType::kBf16},
                        std::tuple{DataType::kBf16, DataType::kBf16, DataType::kBf16});
  SetTypes(scenario, compute, kept, reduced);
  scenario.plan.training.gradient_accumulation = *rc::gen::inRange(1, 4);
  const Sizes sizes = SizesOf(c, plan::Framework::kFsdp2);
  const std::int64_t shards = sizes.shard * SizeOf(kept);
  const std::int64_t unit = sizes.unit * SizeOf(compute);
  const std::int64_t optimizer =
      sizes.shard * plan::OptimizerBytesPerParameter(scenario.plan.training);
  const auto peaks = Peaks(lowering::LowerRank(scenario));
  // From the second micro-batch on, gradient shards exist in forward too.
  const bool accumulates = scenario.plan.training.gradient_accumulation > 1;
  RC_ASSERT(peaks[0] <= (accumulates ? 2 : 1) * shards + 3 * unit);
  RC_ASSERT(peaks[1] <= 2 * shards + 3 * unit + sizes.unit * SizeOf(reduced));
  RC_ASSERT(peaks[2] <= 2 * shards + optimizer);
}

// Without resharding: all parameters, and in forward the last gather buffer. In backward 1.5 units
// more: gradients, or reduce-scatter input and output.
RC_GTEST_PROP(Fsdp2Memory, StaysInsideTheFrameworksBoundsWithoutResharding, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c, plan::Framework::kFsdp2, false);
  SetTypes(scenario, DataType::kFp32, DataType::kFp32, DataType::kFp32);
  const Sizes sizes = SizesOf(c, plan::Framework::kFsdp2);
  const auto peaks = Peaks(lowering::LowerRank(scenario));
  RC_ASSERT(peaks[0] <= 4 * (sizes.shard + sizes.model + sizes.unit));
  RC_ASSERT(2 * peaks[1] <= 4 * (2 * (sizes.shard + sizes.model) + 3 * sizes.unit));
  RC_ASSERT(peaks[2] <= 4 * 4 * sizes.shard);
}

// PyTorch's own case: 2 ranks, 3 blocks of a model of 768 with 12 heads and 32 words, in FP32. Its
// bound for backward is tighter: one unit gathered and two of gradients. Of the 16 MB that it
// allows for other memory, only the gradients outside of blocks are used here.
TEST(Fsdp2Memory, PassesPyTorchsOwnTest) {
  for (const bool reshards : {true, false}) {
    scenario::InputCache cache;
    const auto scenario = scenario::LoadText(fmt::format(R"(
stepcast: 1
model: {{kind: transformer, family: gpt2, num_hidden_layers: 3, hidden_size: 768,
        num_attention_heads: 12, intermediate_size: 3072, vocab_size: 32,
        max_position_embeddings: 16}}
cluster:
  topology: {{kind: flat, devices: 2, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 4, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
           optimizer: adamw}}
data_parallel: {{zero_stage: 3, framework: fsdp2, reshard_after_forward: {}}}
)",
                                                         reshards),
                                             "test", {}, cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    const std::int64_t model = scenario->model->parameter_count();
    // 12 h^2 + 13 h: matrices, their biases, two norms.
    const std::int64_t unit = 12 * 768 * 768 + 13 * 768;
    const std::int64_t others = model - 3 * unit;
    const std::int64_t shard = (model + 1) / 2;
    const auto peaks = Peaks(lowering::LowerRank(*scenario));
    if (reshards) {
      EXPECT_LE(peaks[0], 4 * (shard + 3 * unit + others));
      EXPECT_LE(peaks[1], 4 * (2 * shard + 3 * unit + 2 * others));
    } else {
      EXPECT_LE(peaks[0], 4 * (shard + model + unit));
      EXPECT_LE(2 * peaks[1], 4 * (2 * (shard + model + others) + 3 * unit));
    }
    EXPECT_LE(peaks[2], 4 * 4 * shard);
  }
}

// fsdp1's memory depends on when freed units are no longer in use: the test takes the most that the
// allocator handed out. With the rate limiter, a unit is gathered when at most two freed units are
// still in use; in backward there is also the present one. Gradients cannot accumulate either,
// since the next gather waits behind the reduction.
RC_GTEST_PROP(Fsdp1Memory, StaysInsideTheRateLimitersBounds, ()) {
  const Case c = AnyCase();
  scenario::Scenario scenario = ScenarioOf(c, plan::Framework::kFsdp1, true);
  SetTypes(scenario, DataType::kBf16, DataType::kFp32, DataType::kFp32);
  const auto run = forecast::Simulate(scenario);
  RC_ASSERT(run.has_value());
  const forecast::BytesByCategory& peak = run->forecast.memory.at_peak;
  const Sizes sizes = SizesOf(c, plan::Framework::kFsdp1);
  const std::int64_t unit = sizes.unit;
  RC_ASSERT(peak[static_cast<std::size_t>(Category::kParameter)].count() == 4 * sizes.shard);
  // In 16 bits: two in flight, one in use and one requested, each with the shard from which it is
  // gathered, and one more shard, which is cast before the host waits.
  RC_ASSERT(peak[static_cast<std::size_t>(Category::kCommunication)].count() <=
            2 * (4 * unit + 5 * unit / c.ranks));
}

// Freed memory cannot be reused before the device has finished with it. A host that never waits
// requests every unit of a forward at once; the limiter allows three.
TEST(Fsdp1Memory, WithoutTheLimiterTheHostGathersEverything) {
  // 20 blocks of 100,000 parameters, 1 ms each; gathering one takes some 30 us.
  const Case c{
      std::vector<TestLayer>(
          20, {.parameters = {100'000}, .forward = Milliseconds(1), .backward = Milliseconds(2)}),
      4};
  const auto gathered = [&](bool limited) {
    scenario::Scenario scenario = ScenarioOf(c, plan::Framework::kFsdp1, true);
    scenario.plan.data_parallel.limit_all_gathers = limited;
    const auto run = forecast::Simulate(scenario);
    EXPECT_TRUE(run.has_value());
    return run->forecast.memory.at_peak[static_cast<std::size_t>(Category::kCommunication)].count();
  };
  EXPECT_LE(gathered(true), 4 * 200'000);
  EXPECT_GE(gathered(false), 15 * 200'000);
}

}  // namespace
}  // namespace stepcast
