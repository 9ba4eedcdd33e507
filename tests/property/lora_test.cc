// Invariants of training only adapters, for random adapters, plans and numbers of ranks. Gradients,
// optimizer states and gradient traffic are those of the adapters, and every parameter is stored
// somewhere.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

struct Adapters {
  int rank = 0;  // 0: all parameters are trained
  std::string targets{};
};

scenario::Scenario Loaded(const std::string& data_parallel, int ranks, int layers,
                          const Adapters& adapters, const char* precision = "bf16") {
  const std::string lora = adapters.rank == 0 ? ""
                                              : fmt::format(", lora: {{rank: {}, targets: {}}}",
                                                            adapters.rank, adapters.targets);
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {{kind: transformer, family: llama, num_hidden_layers: {}, hidden_size: 64,
         num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256}}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 16, micro_batch_size: 1, optimizer: adamw, precision: {},
            gradient_accumulation: 1{}}}
data_parallel: {{{}}}
)",
      layers, ranks, precision, lora, data_parallel);
  static scenario::InputCache cache;
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *std::move(scenario);
}

Adapters AnyAdapters() {
  return {*rc::gen::inRange(1, 33),
          *rc::gen::element<std::string>("linear_qkv", "q_proj v_proj", "linear_proj",
                                         "linear_qkv linear_proj linear_fc1 linear_fc2",
                                         "gate_proj up_proj down_proj", "k_proj o_proj up_proj")};
}

Bytes Of(const forecast::BytesByCategory& bytes, program::Category category) {
  return bytes[static_cast<std::size_t>(category)];
}

RC_GTEST_PROP(Lora, StatesAreThoseOfTheAdapters, ()) {
  const int ranks = *rc::gen::element(1, 2, 4), layers = *rc::gen::inRange(1, 6);
  const auto data_parallel = *rc::gen::element<std::string>(
      "zero_stage: 0, framework: ddp", "zero_stage: 0, framework: megatron",
      "zero_stage: 0, framework: reference", "zero_stage: 3, framework: fsdp2",
      "zero_stage: 1, framework: megatron");
  const scenario::Scenario plain = Loaded(data_parallel, ranks, layers, {});
  const scenario::Scenario adapted = Loaded(data_parallel, ranks, layers, AnyAdapters());
  const model::Model& model = *adapted.model;
  RC_ASSERT(model.frozen_count() == plain.model->parameter_count());
  const auto run = forecast::Simulate(adapted);
  RC_ASSERT(run.has_value());
  const forecast::BytesByCategory& peak = run->forecast.memory.at_peak;
  const bool sharded = data_parallel.find("fsdp2") != std::string::npos;
  const std::int64_t shards = sharded || adapted.plan.data_parallel.zero_stage > 0 ? ranks : 1;
  // Padding: one part of a tensor per rank, and Megatron's alignment of tensors and buckets.
  const std::int64_t padding =
      12 * 192 * (static_cast<std::int64_t>(model.tensors.size()) + 2) + 12 * 512;
  // PyTorch's AdamW keeps two moments of 2 bytes; the others keep three FP32 numbers.
  const std::int64_t each =
      plan::TraitsOf(adapted.plan.data_parallel.framework).of_pytorch ? 4 : 12;
  const std::int64_t states = each * model.parameter_count() / shards;
  RC_ASSERT(Of(peak, program::Category::kOptimizer).count() >= states);
  RC_ASSERT(Of(peak, program::Category::kOptimizer).count() <= states + padding);
  RC_ASSERT(Of(peak, program::Category::kGradient).count() <=
            2 * 4 * model.parameter_count() + padding);
  const std::int64_t parameters = 2 * model.all_parameter_count() / (sharded ? ranks : 1);
  RC_ASSERT(Of(peak, program::Category::kParameter).count() >= parameters);
  RC_ASSERT(Of(peak, program::Category::kParameter).count() <=
            parameters + padding + 2 * 64 * static_cast<std::int64_t>(model.frozen.size()));
  // The formula agrees.
  const forecast::BytesByCategory formula = forecast::MemoryFormula(adapted);
  RC_ASSERT(Of(formula, program::Category::kOptimizer).count() - states <= 1);
}

RC_GTEST_PROP(Lora, GradientsOnTheWireAreThoseOfTheAdapters, ()) {
  const int ranks = *rc::gen::element(2, 4, 8), layers = *rc::gen::inRange(1, 6);
  const scenario::Scenario scenario =
      Loaded("zero_stage: 0, framework: ddp", ranks, layers, AnyAdapters());
  const auto run = forecast::Simulate(scenario);
  RC_ASSERT(run.has_value());
  double bytes = 0;
  for (const auto& collective : run->forecast.collectives) bytes += collective.wire_bytes_per_rank;
  const double expected =
      2.0 * (ranks - 1) / ranks * 2.0 * static_cast<double>(scenario.model->parameter_count());
  RC_ASSERT(bytes >= expected && bytes <= expected * 1.001 + 64.0 * ranks * layers);
}

// A step takes at most the time of training all parameters plus the adapters' own work. Its kernels
// do at most two thirds of that work plus the adapters' work. With adapters of rank 1 the step is
// shorter.
RC_GTEST_PROP(Lora, WithoutWeightGradientsBackwardIsShorter, ()) {
  const int layers = *rc::gen::inRange(1, 6);
  const auto flops = [&](const Adapters& adapters) {
    const scenario::Scenario scenario =
        Loaded("zero_stage: 0, framework: ddp", 1, layers, adapters);
    std::int64_t sum = 0;
    const auto works = model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan));
    const auto of_layers = model::WorkOfLayers(*scenario.model, plan::WorkOptionsOf(scenario.plan));
    for (const int work : of_layers) {
      for (const auto& pass : {works[static_cast<std::size_t>(work)].forward,
                               works[static_cast<std::size_t>(work)].backward}) {
        for (const model::Operation& operation : pass) sum += operation.kernel.model_flops;
      }
    }
    return sum;
  };
  RC_ASSERT(flops({1, "linear_qkv"}) < flops({}));
}

}  // namespace
}  // namespace stepcast
