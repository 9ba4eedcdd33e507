// Bounds are admissible: no forecast of any plan of any framework is better.

#include "src/planner/bounds.h"

#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/forecast/long_run.h"
#include "src/forecast/values.h"
#include "src/lowering/lowering.h"
#include "src/program/description.h"
#include "src/scenario/load.h"

namespace stepcast::planner {
namespace {

constexpr const char* kModel = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

// With untied embeddings, so that all frameworks can split it into stages, and heads for every
// division.
constexpr const char* kDecoder = R"(
stepcast: 1
model: {kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 1024,
        num_attention_heads: 16, num_key_value_heads: 8, intermediate_size: 2816, vocab_size: 32000}
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

// Given layers, whose communication is hidden completely, partly or not at all.
constexpr const char* kLayers = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: embedding, repeat: 1, parameters: [4000000], forward: 1 ms, backward: 1 ms,
       activation: 3 MiB}
    - {name: block, repeat: 4, parameters: [3000000, 1000], forward: 5 ms, backward: 11 ms,
       activation: 64 MiB}
  optimizer_step: 2 ms
cluster:
  topology: {kind: flat, devices: 4, memory: 1 GiB, link: {latency: 50 us, bandwidth: 1 GB/s}}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

struct Case {
  const char* text = kModel;
  std::vector<std::string> set;
};

Case AnyPlan() {
  Case any;
  const auto vary = [&any](const char* key, std::vector<const char*> values) {
    any.set.push_back(std::string(key) + "=" + *rc::gen::elementOf(values));
  };
  any.text = *rc::gen::elementOf(std::vector<const char*>{kModel, kDecoder, kDecoder, kLayers});
  const bool layers = any.text == kLayers;
  if (layers) {
    vary("cluster.topology.link.bandwidth", {"100 MB/s", "1 GB/s", "20 GB/s", "1 TB/s"});
    vary("cluster.topology.devices", {"1", "4", "16"});
  } else {
    vary("cluster.nodes", {"1", "2", "16"});
    vary("training.micro_batch_size", {"1", "4", "160"});  // the last does not fit
    vary("training.activation_checkpointing", {"none", "selective", "full"});
    vary("training.compile", {"false", "true"});
    if (*rc::gen::arbitrary<bool>()) vary("training.activation_offload", {"false", "true"});
  }
  vary("training.gradient_accumulation", {"1", "2", "3", "7"});
  vary("training.step_barrier", {"false", "false", "false", "true"});
  const std::string framework = *rc::gen::elementOf(std::vector<std::string>{
      "reference", "ddp", "fsdp1", "fsdp2", "deepspeed", "megatron", "nanotron"});
  any.set.push_back("data_parallel.framework=" + framework);
  const bool nanotron = framework == "nanotron", fsdp2 = framework == "fsdp2";
  const bool megatron = framework == "megatron";
  const bool deepspeed = framework == "deepspeed";
  const bool contexts = framework == "reference" || megatron || fsdp2;
  const bool divides = contexts || nanotron || deepspeed;
  if (divides && *rc::gen::inRange(0, 3) > 0) {
    if (!layers) vary("parallelism.tensor", {"1", "2", "4"});
    if (!layers && !deepspeed) vary("parallelism.sequence_parallel", {"false", "true"});
    if (megatron && !layers && *rc::gen::arbitrary<bool>()) {
      vary("training.tensor_overlap", {"none", "user_buffers", "user_buffers"});
    }
    if (fsdp2 && !layers && *rc::gen::arbitrary<bool>()) {
      any.set.emplace_back("training.compile=true");
      vary("training.tensor_overlap", {"none", "async", "async"});
    }
    vary("parallelism.pipeline", {"1", "1", "2", "2", "4"});
    if (!layers && contexts && *rc::gen::arbitrary<bool>()) {
      vary("parallelism.context", {"1", "2", "4"});
      vary("parallelism.context_method", {"ring", "all_gather", "all_to_all"});
    }
    if (contexts && *rc::gen::arbitrary<bool>()) vary("parallelism.virtual_stages", {"1", "2"});
    if (megatron && *rc::gen::arbitrary<bool>()) {
      vary("parallelism.microbatch_group_size_per_vp_stage", {"2", "4", "8"});
    }
    vary("training.gradient_accumulation", {"1", "2", "4", "8"});
  }
  if (!layers && !nanotron && *rc::gen::inRange(0, 4) == 0) {
    any.set.emplace_back("training.activation_checkpointing=full");
    vary("training.blocks_per_checkpoint", {"1", "4", "12"});
  }
  if (framework == "reference") {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3"});
    vary("data_parallel.overlap", {"true", "false"});
    vary("data_parallel.prefetch", {"0", "1", "3"});
    vary("data_parallel.reshard_after_forward", {"true", "false"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
    vary("data_parallel.bucket_size", {"0 B", "1 MiB", "25 MiB", "200 MiB"});
  } else if (framework == "ddp") {
    vary("data_parallel.bucket_size", {"0 B", "1 MiB", "25 MiB", "200 MiB"});
    vary("data_parallel.gradient_as_bucket_view", {"true", "false"});
  } else if (framework == "fsdp1") {
    vary("data_parallel.zero_stage", {"2", "3"});
    vary("data_parallel.backward_prefetch", {"pre", "post", "none"});
    vary("data_parallel.forward_prefetch", {"true", "false"});
    vary("data_parallel.limit_all_gathers", {"true", "false"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
    vary("data_parallel.use_orig_params", {"true", "false"});
  } else if (framework == "fsdp2") {
    if (*rc::gen::arbitrary<bool>()) {
      any.set.emplace_back("data_parallel.zero_stage=2");
    } else {
      any.set.emplace_back("data_parallel.zero_stage=3");
      vary("data_parallel.reshard_after_forward", {"true", "false", "2"});
    }
    vary("data_parallel.prefetch", {"0", "1", "2", "3"});
    vary("data_parallel.accumulate_unsharded", {"true", "false"});
  } else if (nanotron) {
    vary("data_parallel.zero_stage", {"0", "1"});
  } else if (framework == "megatron") {
    vary("data_parallel.zero_stage", {"0", "1"});
    if (*rc::gen::arbitrary<bool>()) {
      vary("data_parallel.bucket_size", {"1 MiB", "200 MiB"});
    } else {
      any.set.emplace_back("data_parallel.overlap=false");
    }
  } else {
    vary("data_parallel.zero_stage", {"0", "1", "2", "3", "3"});
    vary("data_parallel.overlap", {"true", "false"});
    vary("data_parallel.deepspeed.reduce_bucket_size", {"1000000", "500000000"});
    vary("data_parallel.deepspeed.reduce_scatter", {"true", "false"});
    vary("data_parallel.deepspeed.stage3_prefetch_bucket_size", {"0", "1000000", "50000000"});
    vary("data_parallel.deepspeed.stage3_max_reuse_distance", {"0", "1000000000"});
    vary("data_parallel.deepspeed.zero_hpz_partition_size", {"1", "1", "2"});
    if (!layers) vary("data_parallel.deepspeed.offload_optimizer", {"none", "none", "cpu"});
  }
  if (framework != "ddp" && framework != "deepspeed" && !nanotron && *rc::gen::arbitrary<bool>()) {
    vary("data_parallel.shard_group_size", {"1", "2", "4", "8"});
  }
  return any;
}

// How far the sharper bound is below forecasts. Trivial bounds would hold but be useless.
struct Tightness {
  int plans = 0;
  double time = 0, computing = 0, memory = 0;  // sums of bound over forecast
};

// The mean time of forward and backward over all ranks: the energy at 1 W there and 0 W elsewhere.
double ComputingSeconds(const forecast::Forecast& forecast) {
  return forecast::StepEnergy({.computing = 1}, forecast);
}

bool Same(const Result<Bound>& a, const Result<Bound>& b) {
  return a && b && a->step_time == b->step_time && a->memory == b->memory &&
         a->needed == b->needed && a->fits == b->fits && a->fits_host == b->fits_host &&
         a->over == b->over;
}

TEST(BoundsTest, NoForecastIsBetter) {
  scenario::InputCache cache;
  Bounds bounds;
  forecast::Forecaster forecaster;
  Tightness tightness;
  rc::detail::checkGTest([&] {
    const Case any = AnyPlan();
    const auto scenario = scenario::LoadText(any.text, "test", any.set, cache);
    if (!scenario) return;  // not a plan that can exist
    const auto program = bounds.OfProgram(*scenario);
    const auto first = bounds.First(*scenario);
    RC_ASSERT(Same(first, Bounds().First(*scenario)));
    // Earlier calls do not change the result.
    RC_ASSERT(Same(program, Bounds().OfProgram(*scenario)));
    const auto forecast = forecaster.Evaluate(*scenario, forecast::Detail::kTimes);
    RC_ASSERT(program.has_value());
    RC_ASSERT(first.has_value());
    RC_ASSERT(forecast.has_value());
    const forecast::MemoryForecast& memory = forecast->memory;
    for (const std::string& set : any.set) RC_LOG() << set << "\n";
    RC_LOG() << "first " << first->step_time.seconds() << " s, " << first->memory.count() << " B\n";
    RC_LOG() << "bound " << program->step_time.seconds() << " s, forecast "
             << forecast->step_time.seconds() << " s\nbound " << program->memory.count()
             << " B, forecast " << memory.peak.count() << " B\n";
    RC_ASSERT(program->step_time <= forecast->step_time);
    RC_ASSERT(program->memory <= memory.peak);
    RC_ASSERT(first->step_time <= forecast->step_time);
    const double computing = ComputingSeconds(*forecast);
    RC_LOG() << "first " << first->computing.seconds() << " s of computing, forecast " << computing
             << " s\n";
    RC_ASSERT(first->computing.seconds() <= computing * (1 + 1e-9));
    RC_ASSERT(first->memory <= memory.peak);
    if (!first->fits) RC_ASSERT(!memory.fits);
    if (!program->fits) {
      RC_ASSERT(!memory.fits);
      const Bytes over =
          std::max({memory.reserved + memory.outside - memory.capacity,
                    memory.host - memory.host_capacity, memory.drives - memory.drives_capacity});
      RC_ASSERT(program->over <= over);
    }
    ++tightness.plans;
    tightness.time += program->step_time / forecast->step_time;
    tightness.computing += first->computing.seconds() / computing;
    tightness.memory +=
        static_cast<double>(program->memory.count()) / static_cast<double>(memory.peak.count());
  });
  // The program determines most of the time; the bound misses the sharing of multiprocessors and
  // memory.
  EXPECT_GE(tightness.plans, 50);
  EXPECT_GE(tightness.time / tightness.plans, 0.9);
  EXPECT_GE(tightness.computing / tightness.plans, 0.9);
  EXPECT_GE(tightness.memory / tightness.plans, 0.85);
}

// Stage 1 computes weight gradients while the next step's first micro-batch is in flight, so stage
// 0's time for it is not added to stage 1's work.
TEST(BoundsTest, GradientsOfWeightsFillTheBeginOfTheNextStep) {
  scenario::InputCache cache;
  const auto scenario = scenario::LoadText(R"(
stepcast: 1
model: {kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 16,
        num_attention_heads: 4, intermediate_size: 32, vocab_size: 64}
cluster: {topology: topologies/pcie-8gpu.yaml, nodes: 1}
training: {sequence_length: 32, micro_batch_size: 1, gradient_accumulation: 12, precision: bf16,
           optimizer: adamw}
parallelism: {pipeline: 2, schedule: zb_h2}
data_parallel: {framework: reference, zero_stage: 0, shard_group_size: 2}
)",
                                           "test", {}, cache);
  ASSERT_TRUE(scenario.has_value());
  EXPECT_LE(Bounds().First(*scenario)->step_time,
            forecast::Forecaster().Evaluate(*scenario)->step_time);
}

// A plan whose states are sharded among other ranks than the previous plan's, all else equal; and a
// plan whose stages have other chunks.
TEST(BoundsTest, WhatIsKeptOfOnePlanIsNotTakenForAnother) {
  scenario::InputCache cache;
  Bounds bounds;
  for (const char* set : {"data_parallel.shard_group_size=2", "data_parallel.shard_group_size=8",
                          "parallelism.schedule=1f1b", "parallelism.schedule=zb_v"}) {
    std::vector<std::string> all = {"data_parallel.framework=megatron", "cluster.nodes=2",
                                    "data_parallel.zero_stage=1", "parallelism.tensor=2", set};
    if (std::string_view(set).starts_with("parallelism")) {
      all = {"data_parallel.framework=fsdp2", "data_parallel.zero_stage=3",
             "parallelism.pipeline=2", "training.gradient_accumulation=8", set};
    }
    const auto scenario = scenario::LoadText(kDecoder, "test", all, cache);
    ASSERT_TRUE(scenario.has_value()) << set << scenario.error().front().message;
    EXPECT_TRUE(Same(bounds.OfProgram(*scenario), Bounds().OfProgram(*scenario))) << set;
  }
}

// Plans that the search drops as duplicates (search_problem.cc): FSDP that defers its communication
// to the end of a step with a single micro-batch.
TEST(SamePlansTest, NothingIsPutOffWithOneMicroBatch) {
  scenario::InputCache cache;
  for (const char* framework : {"fsdp1", "fsdp2"}) {
    for (const char* stage : {"2", "3"}) {
      for (const char* shards : {"8", "16"}) {
        for (const char* reduced : {"bf16", "fp32"}) {
          const auto program_of = [&](const char* accumulate) {
            const auto scenario = scenario::LoadText(
                kModel, "test",
                {"cluster.nodes=2", std::string("data_parallel.framework=") + framework,
                 std::string("data_parallel.zero_stage=") + stage,
                 std::string("data_parallel.shard_group_size=") + shards,
                 std::string("training.reduce_dtype=") + reduced,
                 std::string("data_parallel.accumulate_unsharded=") + accumulate},
                cache);
            EXPECT_TRUE(scenario.has_value());
            return program::Dump(lowering::LowerRank(*scenario));
          };
          EXPECT_EQ(program_of("true"), program_of("false"))
              << framework << " stage " << stage << " shards " << shards << " " << reduced;
        }
      }
    }
  }
}

// If a pipeline's program has no deferred frees, the memory bound equals the forecast's memory.
TEST(Bounds, OfAPipelineHaveItsMemoryWhereNothingIsFreedLate) {
  for (const char* set : {"parallelism.pipeline=2", "parallelism.pipeline=4"}) {
    scenario::InputCache cache;
    const auto scenario =
        scenario::LoadText(kDecoder, "test", {set, "training.gradient_accumulation=16"}, cache);
    ASSERT_TRUE(scenario) << Format(scenario.error());
    const auto forecast = forecast::FiguresOf(*scenario);
    const auto bound = Bounds().OfProgram(*scenario);
    ASSERT_TRUE(forecast && bound);
    EXPECT_LE(bound->memory, forecast->memory.peak);
    EXPECT_GE(bound->memory.count(), 0.98 * static_cast<double>(forecast->memory.peak.count()))
        << set;
  }
}

// Offloaded states are not on the device: FSDP's states, Megatron-LM's optimizer.
TEST(Bounds, CountNothingThatIsOnTheHost) {
  const std::vector<std::vector<std::string>> plans = {
      {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3",
       "data_parallel.cpu_offload=true", "data_parallel.shard_group_size=1"},
      {"data_parallel.framework=fsdp2", "data_parallel.zero_stage=3",
       "data_parallel.cpu_offload=true", "data_parallel.shard_group_size=1"},
      {"data_parallel.framework=megatron", "data_parallel.zero_stage=1",
       "data_parallel.optimizer_cpu_offload=true"}};
  for (std::vector<std::string> set : plans) {
    set.emplace_back("training.activation_checkpointing=full");
    scenario::InputCache cache;
    const auto scenario = scenario::LoadText(kDecoder, "test", set, cache);
    ASSERT_TRUE(scenario) << Format(scenario.error());
    const auto forecast = forecast::FiguresOf(*scenario);
    ASSERT_TRUE(forecast);
    EXPECT_LE(Bounds().OfProgram(*scenario)->memory.count(), forecast->memory.peak.count())
        << set[0];
    EXPECT_LE(Bounds().First(*scenario)->memory.count(), forecast->memory.peak.count()) << set[0];
  }
}

// Several kinds of nodes: stages are on either kind, whose kernels have different workspaces.
TEST(Bounds, OfStagesOnNodesOfSeveralKindsHold) {
  scenario::InputCache cache;
  const auto scenario = scenario::LoadText(
      kDecoder, "test",
      {"cluster.other_nodes=[{topology: topologies/dgx-a100.yaml, nodes: 1}]",
       "data_parallel.framework=fsdp2", "data_parallel.zero_stage=3", "parallelism.pipeline=2",
       "parallelism.schedule=gpipe", "training.gradient_accumulation=1"},
      cache);
  ASSERT_TRUE(scenario) << Format(scenario.error());
  const auto forecast = forecast::FiguresOf(*scenario);
  const auto bound = Bounds().OfProgram(*scenario);
  ASSERT_TRUE(forecast && bound);
  EXPECT_LE(bound->memory, forecast->memory.peak);
}

}  // namespace
}  // namespace stepcast::planner
