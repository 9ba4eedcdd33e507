// Interprets the data flow of lowered programs for all ranks, and compares it with plain data
// parallelism.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/description.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "src/validate/training_check.h"
#include "tests/proofs/data_flow_validator.h"
#include "tests/training/interpreter.h"

namespace stepcast::training {
namespace {

using validate::TrainPlainly;
using validate::Weights;

constexpr std::uint64_t kSeed = 20'240'229;

scenario::Scenario Loaded(const std::string& text) {
  static scenario::InputCache cache;  // the GPU and its profile are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *scenario;
}

// Layers of a few odd-sized tensors, and one without any.
constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 1 ms, backward: 2 ms, activation: 0 B}
    - {name: plain, parameters: [], forward: 1 ms, backward: 2 ms, activation: 0 B}
    - {name: block, repeat: 3, parameters: [24, 7, 1], forward: 1 ms, backward: 2 ms,
       activation: 0 B}
  optimizer_step: 1 ms
)";

// A transformer whose head reads the embedding's tensor.
constexpr const char* kTied = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 2
  hidden_size: 6
  num_attention_heads: 2
  intermediate_size: 10
  vocab_size: 11
  max_position_embeddings: 8
)";

// Encoders with norms after residuals and before.
std::string Encoder(const char* family) {
  return fmt::format(R"(
  kind: transformer
  family: {}
  num_hidden_layers: 2
  hidden_size: 6
  num_attention_heads: 2
  intermediate_size: 10
  vocab_size: 11
  max_position_embeddings: 8
)",
                     family);
}

std::string Text(const std::string& model, int ranks, const std::string& training,
                 const std::string& data_parallel) {
  return fmt::format(R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, {}}}
data_parallel: {{{}}}
)",
                     model, ranks, training, data_parallel);
}

bool SameProgram(const program::Program& a, const program::Program& b) {
  return program::Dump(a) == program::Dump(b) && a.uses.size() == b.uses.size() &&
         std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), [](const auto& x, const auto& y) {
           return x.buffer == y.buffer && x.write == y.write && x.offset == y.offset &&
                  x.size == y.size;
         });
}

// Compares every rank's state with the plain weights; together the ranks hold the whole model.
void ExpectPlainWeights(const scenario::Scenario& scenario, Gradients gradients, int steps,
                        double bound, const std::string& text) {
  const int ranks = static_cast<int>(scenario.plan.parallelism.data);
  std::vector<program::Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(lowering::LowerRank(scenario, {.rank = rank, .data_flow = true}));
    const auto violations = program::Validate(programs.back());
    ASSERT_TRUE(violations.empty()) << text << violations.front().message;
    const auto sentences = program::ValidateDataFlow(programs.back());
    ASSERT_TRUE(sentences.empty()) << text << sentences.front();
  }
  Interpreter interpreter(std::move(programs), gradients, kSeed);
  for (int step = 0; step < steps; ++step) interpreter.Step();
  const Weights plain = TrainPlainly(scenario, gradients, steps, kSeed);

  const auto count = static_cast<std::int64_t>(plain.parameters.size());
  std::vector<bool> has_parameter(count, false), has_state(count, false);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const program::StatePart& part : interpreter.program(rank).data_flow.state) {
      auto& has = part.role == program::StateRole::kParameter ? has_parameter : has_state;
      std::fill_n(has.begin() + part.first_element, part.elements, true);
      if (part.role == program::StateRole::kMoment) continue;
      const bool master = part.role == program::StateRole::kMaster;
      const std::vector<float>& expected = master ? plain.masters : plain.parameters;
      const std::vector<float> values = interpreter.Read(rank, part);
      for (std::int64_t i = 0; i < part.elements; ++i) {
        const float right = expected[part.first_element + i];
        if (bound == 0 ? values[i] == right : std::abs(values[i] - right) <= bound) continue;
        FAIL() << text << "rank " << rank << ": " << (master ? "master copy" : "parameter")
               << " of element " << part.first_element + i << " is " << values[i] << ", not "
               << right;
      }
    }
  }
  EXPECT_EQ(std::count(has_parameter.begin(), has_parameter.end(), false), 0) << text;
  EXPECT_EQ(std::count(has_state.begin(), has_state.end(), false), 0) << text;
}

// Runs AdamW, which hides a gradient's scale, and SGD, which does not.
void ExpectSameBits(const std::string& model, int ranks, const std::string& training,
                    const std::string& data_parallel) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    const std::string text =
        Text(model, ranks, fmt::format("{}, optimizer: {}", training, optimizer), data_parallel);
    ExpectPlainWeights(Loaded(text), Gradients::kSmallIntegers, 3, 0, text);
  }
}

// All sharding strategies, each with all its options that affect values.
std::vector<std::string> DataParallelPlans(int ranks) {
  std::vector<std::string> plans;
  const auto add = [&](const std::string& base, std::vector<std::string> variants) {
    plans.push_back(base);
    for (const std::string& variant : variants) plans.push_back(base + ", " + variant);
  };
  add("zero_stage: 0, framework: reference",
      {"overlap: false", "bucket_size: 0 B", "bucket_size: 64 B", "no_sync: false",
       "no_sync: false, overlap: false"});
  add("zero_stage: 1, framework: reference, no_sync: false", {"overlap: false"});
  // Stage 2 of fsdp2 keeps parameters after forward.
  add("zero_stage: 2, framework: fsdp2", {"accumulate_unsharded: true"});
  for (const char* stage : {"1", "2"}) {
    add(fmt::format("zero_stage: {}, framework: reference", stage),
        {"overlap: false", "bucket_size: 0 B", "bucket_size: 64 B, first_bucket_size: 16 B",
         "accumulate_unsharded: true", "shard_group_size: 1"});
  }
  const std::vector<std::string> sharded = {
      "prefetch: 0", "prefetch: 3", "reshard_after_forward: false", "accumulate_unsharded: true"};
  add("zero_stage: 3, framework: reference", sharded);
  add("zero_stage: 3, framework: reference", {"overlap: false"});
  add("zero_stage: 0, framework: ddp",
      {"bucket_size: 0 B", "bucket_size: 64 B", "gradient_as_bucket_view: true", "no_sync: false",
       "no_sync: false, gradient_as_bucket_view: true",
       "find_unused_parameters: true, bucket_size: 64 B"});
  add("zero_stage: 3, framework: fsdp2", sharded);
  add("zero_stage: 0, framework: megatron",
      {"overlap: false", "bucket_size: 64 B", "no_sync: false"});
  add("zero_stage: 1, framework: megatron, no_sync: false",
      {"overlap: false", "bucket_size: 64 B"});
  add("zero_stage: 1, framework: megatron",
      {"overlap: false", "bucket_size: 64 B", "bucket_size: 64 B, overlap_param_gather: false"});
  add("zero_stage: 0, framework: nanotron", {"bucket_size: 0 B", "bucket_size: 64 B"});
  add("zero_stage: 1, framework: nanotron", {});
  for (const char* stage : {"2", "3"}) {
    add(fmt::format("zero_stage: {}, framework: fsdp1", stage),
        {"backward_prefetch: post, forward_prefetch: true", "backward_prefetch: none",
         "limit_all_gathers: false", "use_orig_params: true", "accumulate_unsharded: true"});
  }
  for (const char* stage : {"1", "2"}) {
    for (const char* settings :
         {"deepspeed: {reduce_bucket_size: 1000}",
          "overlap: true, deepspeed: {reduce_bucket_size: 40}",
          "deepspeed: {reduce_bucket_size: 10, round_robin_gradients: true}",
          "overlap: true, deepspeed: {reduce_bucket_size: 30, reduce_scatter: false}"}) {
      plans.push_back(fmt::format("zero_stage: {}, framework: deepspeed, {}", stage, settings));
    }
  }
  add("zero_stage: 0, framework: deepspeed", {});
  add("zero_stage: 3, framework: deepspeed, deepspeed: {reduce_bucket_size: 1000}", {});
  add("zero_stage: 3, framework: deepspeed, overlap: false, deepspeed: {reduce_bucket_size: 30, "
      "stage3_param_persistence_threshold: 0, stage3_prefetch_bucket_size: 20, "
      "stage3_max_reuse_distance: 10, sub_group_size: 20}",
      {});
  add("zero_stage: 3, framework: deepspeed, deepspeed: {reduce_bucket_size: 40, reduce_scatter: "
      "false, stage3_param_persistence_threshold: 7, stage3_prefetch_bucket_size: 60, "
      "stage3_max_reuse_distance: 30, stage3_max_live_parameters: 70}",
      {});
  if (ranks >= 4) {
    for (const char* more :
         {"", ", stage3_prefetch_bucket_size: 30, stage3_max_reuse_distance: 0"}) {
      plans.push_back(
          fmt::format("zero_stage: 3, framework: deepspeed, deepspeed: {{reduce_bucket_size: 100, "
                      "stage3_param_persistence_threshold: 5, zero_hpz_partition_size: 2{}}}",
                      more));
    }
    for (const char* stage : {"1", "2", "3"}) {
      add(fmt::format("zero_stage: {}, framework: reference, shard_group_size: 2", stage),
          {"accumulate_unsharded: true"});
    }
    add("zero_stage: 3, framework: reference, reshard_after_forward: 2", {"prefetch: 2"});
    add("zero_stage: 1, framework: megatron, shard_group_size: 2", {"bucket_size: 64 B"});
    add("zero_stage: 1, framework: megatron, shard_group_size: 1", {"bucket_size: 64 B"});
    add("zero_stage: 3, framework: fsdp2, shard_group_size: 2", {"accumulate_unsharded: true"});
    add("zero_stage: 3, framework: fsdp1, shard_group_size: 2",
        {"accumulate_unsharded: true", "use_orig_params: true"});
    add("zero_stage: 2, framework: fsdp1, shard_group_size: 2", {"accumulate_unsharded: true"});
    add("zero_stage: 3, framework: fsdp1, shard_group_size: 1", {});
    add("zero_stage: 3, framework: fsdp2, reshard_after_forward: 2", {"prefetch: 2"});
  }
  return plans;
}

TEST(Training, EveryPlanOfALayerListTrainsAsPlainDataParallelism) {
  for (const int ranks : {1, 2, 4}) {
    for (const std::string& plan : DataParallelPlans(ranks)) {
      for (const char* micro : {"1", "2", "4"}) {
        ExpectSameBits(kLayers, ranks,
                       fmt::format("precision: bf16, gradient_accumulation: {}", micro), plan);
      }
    }
  }
}

TEST(Training, EveryPlanOfATransformerTrainsAsPlainDataParallelism) {
  for (const std::string& plan : DataParallelPlans(4)) {
    for (const char* precision : {"bf16", "fp32"}) {
      const bool half_alone = plan.find("nanotron") != std::string::npos;
      if (half_alone && std::string(precision) != "bf16") continue;
      ExpectSameBits(kTied, 4, fmt::format("precision: {}, gradient_accumulation: 2", precision),
                     plan);
    }
  }
}

// Executions apply AdamW's update to every tensor, in LAMB's kernels.
TEST(Training, LambsKernelsUpdateAsOne) {
  for (const char* plan : {"zero_stage: 0, framework: ddp", "zero_stage: 0, framework: reference",
                           "zero_stage: 0, framework: reference, bucket_size: 64 B"}) {
    for (const char* types : {"precision: bf16", "precision: fp32"}) {
      const std::string text =
          Text(kTied, 4, fmt::format("{}, gradient_accumulation: 2, optimizer: lamb", types), plan);
      ExpectPlainWeights(Loaded(text), Gradients::kSmallIntegers, 3, 0, text);
    }
  }
}

TEST(Training, EncodersTrainAsPlainDataParallelism) {
  for (const char* family : {"bert", "megatron-bert"}) {
    for (const char* masked : {"", ", masked_tokens: 2"}) {
      const std::string training =
          fmt::format("precision: bf16, gradient_accumulation: 2{}", masked);
      for (const std::string& plan : DataParallelPlans(4)) {
        ExpectSameBits(Encoder(family), 4, training, plan);
      }
    }
  }
}

// All combinations of types for storage, accumulation and communication: separate accumulators,
// casts, conversions on the way.
TEST(Training, EveryMixOfTypesTrainsAsPlainDataParallelism) {
  std::vector<std::string> reference;
  for (const char* stage : {"0", "1", "2", "3"}) {
    for (const char* more : {"", ", accumulate_unsharded: true", ", shard_group_size: 2",
                             ", overlap: false", ", overlap: false, shard_group_size: 2"}) {
      reference.push_back(fmt::format("framework: reference, zero_stage: {}{}", stage, more));
    }
  }
  for (const char* types :
       {"bf16, gradient_dtype: fp32", "bf16, gradient_dtype: fp32, reduce_dtype: fp32",
        "bf16, reduce_dtype: fp32", "bf16, reduce_dtype: fp16", "bf16, parameter_dtype: fp32",
        "bf16, parameter_dtype: fp32, reduce_dtype: bf16",
        "bf16, parameter_dtype: fp32, gradient_dtype: bf16", "fp16", "fp8",
        "bf16, gradient_dtype: fp32, optimizer_implementation: foreach",
        "bf16, master_weights: none", "bf16, master_weights: none, gradient_dtype: fp32"}) {
    for (const std::string& plan : reference) {
      for (const char* micro : {"1", "4"}) {
        ExpectSameBits(kLayers, 4,
                       fmt::format("precision: {}, gradient_accumulation: {}", types, micro), plan);
      }
    }
  }
  for (const char* types :
       {"bf16, parameter_dtype: fp32", "fp16, master_weights: fp32", "fp8, parameter_dtype: fp32",
        "bf16, optimizer_implementation: fused", "bf16, master_weights: fp32"}) {
    // A hook sends small integers, which 16 bits hold.
    const bool wide = std::string(types).find("parameter_dtype: fp32") != std::string::npos;
    for (const char* more : {"", ", gradient_as_bucket_view: true", ", comm_hook: fp16_compress",
                             ", comm_hook: bf16_compress, bucket_size: 64 B, "
                             "gradient_as_bucket_view: true"}) {
      if (!wide && std::string(more).find("hook") != std::string::npos) continue;
      ExpectSameBits(kTied, 4, fmt::format("precision: {}, gradient_accumulation: 2", types),
                     fmt::format("framework: ddp, zero_stage: 0{}", more));
    }
  }
  for (const char* types :
       {"bf16, parameter_dtype: fp32", "bf16, parameter_dtype: fp32, reduce_dtype: fp32",
        "bf16, reduce_dtype: fp32", "fp16, parameter_dtype: fp32", "fp8",
        "bf16, master_weights: fp32", "fp16, master_weights: fp32"}) {
    for (const char* more : {"", ", accumulate_unsharded: true", ", shard_group_size: 2",
                             ", accumulate_unsharded: true, shard_group_size: 2"}) {
      for (const char* framework : {"fsdp1", "fsdp2"}) {
        ExpectSameBits(kTied, 4, fmt::format("precision: {}, gradient_accumulation: 4", types),
                       fmt::format("framework: {}, zero_stage: 3{}", framework, more));
      }
    }
  }
}

// The norm includes all gradients, on any rank. Gradients have a norm of about 20: a limit of 1
// scales them down, and one of 1000 does not. The norm of small integers' means is exact in any
// order, and so is the factor.
TEST(Training, EveryPlanClipsGradientsAsPlainDataParallelism) {
  for (const char* limit : {"1", "1000"}) {
    for (const char* model : {kLayers, kTied}) {
      for (const char* types : {"bf16", "bf16, parameter_dtype: fp32"}) {
        for (const std::string& plan : DataParallelPlans(4)) {
          const bool one_type = plan.find("megatron") != std::string::npos ||
                                plan.find("nanotron") != std::string::npos ||
                                plan.find("deepspeed") != std::string::npos;
          if (one_type && std::string(types) != "bf16") continue;
          ExpectSameBits(model, 4,
                         fmt::format("precision: {}, gradient_accumulation: 2, "
                                     "gradient_clipping: {}",
                                     types, limit),
                         plan);
        }
      }
    }
  }
}

// The settings of the loop around the step, and of where activations are stored, change no value.
TEST(Training, TheLoopsSettingsTrainAsPlainDataParallelism) {
  const std::string loop = "precision: bf16, gradient_accumulation: 2, host_waits: ";
  for (const char* plan :
       {"framework: ddp, zero_stage: 0", "framework: fsdp1, zero_stage: 3",
        "framework: fsdp2, zero_stage: 3", "framework: fsdp1, zero_stage: 3, units: layer",
        "framework: fsdp2, zero_stage: 3, units: layer",
        "framework: fsdp1, zero_stage: 3, unit_blocks: 2",
        "framework: fsdp2, zero_stage: 3, unit_blocks: 2, units: layer",
        "framework: fsdp2, zero_stage: 3, unit_blocks: 3, prefetch: 0, accumulate_unsharded: true",
        "framework: fsdp1, zero_stage: 2, unit_blocks: 2, backward_prefetch: post",
        "framework: fsdp1, zero_stage: 3, units: model",
        "framework: fsdp2, zero_stage: 3, units: model, prefetch: 2"}) {
    ExpectSameBits(kTied, 4, loop + "micro_batch, optimizer_implementation: single", plan);
    ExpectSameBits(kTied, 4,
                   loop +
                       "update, activation_checkpointing: full, checkpointed_blocks: 1/2, "
                       "parameter_dtype: fp32, optimizer_implementation: single",
                   plan);
  }
  for (const char* plan :
       {"framework: reference, zero_stage: 3", "framework: ddp, zero_stage: 0",
        "framework: fsdp1, zero_stage: 3", "framework: fsdp2, zero_stage: 3",
        "framework: megatron, zero_stage: 1", "framework: deepspeed, zero_stage: 3"}) {
    std::string text =
        Text(kTied, 8, loop + "step, activation_offload: true, optimizer: adamw", plan);
    const std::size_t at = text.find("{kind: flat");
    const std::size_t end = text.find('\n', at);
    text.replace(at, end - at, "topologies/dgx-h100.yaml");
    ExpectPlainWeights(Loaded(text), Gradients::kSmallIntegers, 2, 0, text);
  }
}

// ZeRO-3 that reduces by bucket and gathers by unit: a rank has the same part in both.
TEST(Training, BucketsAcrossUnitsTrainAsPlainDataParallelism) {
  for (const char* bucket : {"0 B", "20 B", "64 B", "1 MiB"}) {
    for (const char* more : {"", ", accumulate_unsharded: true", ", reshard_after_forward: 2",
                             ", shard_group_size: 2", ", overlap: false"}) {
      const std::string plan =
          fmt::format("framework: reference, zero_stage: 3, bucket_size: {}{}", bucket, more);
      for (const char* model : {kLayers, kTied}) {
        ExpectSameBits(model, 4, "precision: bf16, gradient_dtype: fp32, gradient_accumulation: 2",
                       plan);
      }
    }
  }
}

// Random layer lists on random numbers of ranks.
RC_GTEST_PROP(Training, RandomLayersTrainAsPlainDataParallelism, ()) {
  const auto number = [](int below) { return *rc::gen::inRange(0, below); };
  std::string model = "\n  kind: layers\n  layers:\n";
  const int layers = 1 + number(4);
  for (int layer = 0; layer < layers; ++layer) {
    std::string parameters;
    const int tensors = layer == 0 ? 1 + number(3) : number(4);
    for (int tensor = 0; tensor < tensors; ++tensor) {
      parameters += fmt::format("{}{}", tensor == 0 ? "" : ", ", 1 + number(40));
    }
    model += fmt::format(
        "    - {{name: l{}, repeat: {}, parameters: [{}], forward: 1 ms, backward: 1 ms, "
        "activation: 0 B}}\n",
        layer, 1 + number(2), parameters);
  }
  model += "  optimizer_step: 1 ms\n";
  const int ranks = 1 << number(4);
  const auto plans = DataParallelPlans(ranks);
  const std::string plan = plans[number(static_cast<int>(plans.size()))];
  ExpectSameBits(model, ranks,
                 fmt::format("precision: bf16, gradient_accumulation: {}", 1 << number(3)), plan);
  RC_ASSERT(!testing::Test::HasFailure());
}

// Three ranks, three micro-batches: thirds are rounded, so runs differ in their last bits. A
// gradient is a sum of k = 3 x 3 x 2 terms of one sign (a tied tensor has two). Each term and each
// sum is rounded to b bits and scaled a few times: the relative error is at most e = (k + 6) 2^-b.
// The gradient is at most 2.2. SGD: step s adds s gradients, so after S steps weights differ by at
// most 2.2 e (learning rate) S (S + 1) / 2. AdamW: an update is at most the learning rate, and
// changes by less than 4 e of it. Weights are below 1/8 and round by 2^-28 per step.
TEST(Training, ThirdsStayWithinTheBound) {
  constexpr int kSteps = 4;
  const auto bound = [](int bits) {
    const double e = 24 * std::ldexp(1.0, -bits);
    return 4 * e * 1e-3 * kSteps * (kSteps + 1) / 2 + kSteps * std::ldexp(1.0, -28);
  };
  for (const std::string& plan : DataParallelPlans(3)) {
    if (plan.find("nanotron") != std::string::npos) continue;  // has no FP32 parameters
    for (const char* optimizer : {"adamw", "sgd"}) {
      const std::string text = Text(
          kTied, 3,
          fmt::format("precision: fp32, gradient_accumulation: 3, optimizer: {}", optimizer), plan);
      ExpectPlainWeights(Loaded(text), Gradients::kQuadratic, kSteps, bound(24), text);
    }
  }
}

// Apart from groups and data flow, all ranks' programs are equal.
TEST(Training, RanksDifferInGroupsAndDataFlowAlone) {
  for (const char* plan :
       {"framework: reference, zero_stage: 3, shard_group_size: 4, reshard_after_forward: 2",
        "framework: reference, zero_stage: 1", "framework: ddp, zero_stage: 0",
        "framework: megatron, zero_stage: 1, shard_group_size: 4",
        "framework: nanotron, zero_stage: 0", "framework: nanotron, zero_stage: 1",
        "framework: fsdp2, zero_stage: 3, shard_group_size: 4, reshard_after_forward: 2"}) {
    const auto scenario =
        Loaded(Text(kTied, 8, "precision: bf16, gradient_accumulation: 2, optimizer: adamw", plan));
    const auto common = [&](const lowering::LowerOptions& options) {
      program::Program program = lowering::LowerRank(scenario, options);
      for (program::ProcessGroup& group : program.groups) {
        EXPECT_EQ(std::count(group.ranks.begin(), group.ranks.end(), options.rank), 1) << plan;
        group.ranks.clear();
      }
      EXPECT_EQ(program.data_flow.empty(), !options.data_flow);
      program.data_flow = {};
      return program;
    };
    const program::Program first = common({.rank = 0, .data_flow = true});
    for (int rank = 1; rank < 8; ++rank) {
      EXPECT_TRUE(SameProgram(first, common({.rank = rank, .data_flow = true})))
          << plan << ", rank " << rank;
    }
    // With a data flow, only the ranges of operations change.
    const program::Program bare = common({});
    EXPECT_EQ(bare.step.size(), first.step.size());
    EXPECT_EQ(bare.buffers.size(), first.buffers.size());
  }
}

// Two nodes of four: shard groups are neighbors, replica groups are across nodes, kept shards are
// within pairs.
TEST(Training, GroupsAreThoseOfTheRank) {
  const auto scenario =
      Loaded(Text(kLayers, 8, "precision: bf16, gradient_accumulation: 1, optimizer: adamw",
                  "framework: fsdp2, zero_stage: 3, shard_group_size: 4, "
                  "reshard_after_forward: 2"));
  const auto program = lowering::LowerRank(scenario, {.rank = 6});
  ASSERT_EQ(program.groups.size(), 3u);
  EXPECT_EQ(program.groups[0].ranks, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(program.groups[1].ranks, (std::vector<int>{2, 6}));
  EXPECT_EQ(program.groups[2].ranks, (std::vector<int>{6, 7}));
}

}  // namespace
}  // namespace stepcast::training
