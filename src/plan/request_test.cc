#include "src/plan/request.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

Request Minimal(Framework framework, int stage) {
  Request request;
  request.sequence_length = 1024;
  request.micro_batch_size = 2;
  request.gradient_accumulation = 4;
  request.precision = DataType::kBf16;
  request.optimizer = Optimizer::kAdamW;
  request.zero_stage = stage;
  request.framework = framework;
  return request;
}

// The requested kernel runs; otherwise the default of the software on the GPU.
TEST(Complete, AttentionIsWhatTheSoftwareTakesOnTheGpu) {
  using model::Attention;
  const auto attention = [](Framework framework, Version torch, std::optional<int> capability,
                            std::optional<Attention> asked = std::nullopt,
                            std::optional<std::int64_t> document = std::nullopt) {
    Request request = Minimal(framework, 0);
    request.torch = torch;
    request.compute_capability = capability;
    request.attention = asked;
    request.document_length = document;
    return Complete(request, 8).training.attention;
  };
  constexpr int kA100 = 80, kH100 = 90, kB200 = 100, kB300 = 103;
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, kH100), Attention::kCudnn);
  EXPECT_EQ(attention(Framework::kDdp, {2, 11}, kB300), Attention::kCudnn);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 10}, kB200), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, kA100), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, std::nullopt), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, kH100, std::nullopt, 256), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, kH100, Attention::kFlash), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kMegatron, {2, 6}, kB200), Attention::kCudnn);
  EXPECT_EQ(attention(Framework::kMegatron, {2, 11}, kH100), Attention::kFlash);
  EXPECT_EQ(attention(Framework::kDeepSpeed, {2, 11}, kB200), Attention::kFlash);
}

TEST(Complete, DerivesTheDataDegreeAndTheBatch) {
  Request request = Minimal(Framework::kReference, 0);
  Plan plan = Complete(request, 8);
  EXPECT_EQ(plan.parallelism.data, 8);
  EXPECT_EQ(plan.training.global_batch_size, 64);  // 2 x 4 x 8

  request.gradient_accumulation.reset();
  request.global_batch_size = 48;
  plan = Complete(request, 8);
  EXPECT_EQ(plan.training.gradient_accumulation, 3);  // 48 / (2 x 8)
  EXPECT_EQ(plan.training.global_batch_size, 48);
}

// The 4M-token recipe: 1024 sequences of 4096 tokens, two at a time.
TEST(Complete, GivesTheAccumulationOfTheFourMillionTokenRecipe) {
  Request request = Minimal(Framework::kReference, 0);
  request.gradient_accumulation.reset();
  request.global_batch_size = 1024;
  EXPECT_EQ(Complete(request, 128).training.gradient_accumulation, 4);
  EXPECT_EQ(Complete(request, 512).training.gradient_accumulation, 1);
}

// Llama 3's 126 blocks on 16 stages of 8 chunks: with embedding and head they are 128.
TEST(Complete, EqualStagesCountTheEndsAsBlocks) {
  Request request = Minimal(Framework::kMegatron, 1);
  request.pipeline = 4;
  EXPECT_EQ(StageLayersOf(request, {.count = 12}, 4), (std::vector<std::int64_t>{3, 3, 3, 3}));
  EXPECT_TRUE(StageLayersOf(request, {.count = 11}, 4).empty());
  request.account_for_loss_in_pipeline_split = true;
  EXPECT_EQ(StageLayersOf(request, {.count = 11}, 4), (std::vector<std::int64_t>{3, 3, 3, 2}));
  request.account_for_embedding_in_pipeline_split = true;
  const std::vector<std::int64_t> layers = StageLayersOf(request, {.count = 126}, 128);
  ASSERT_EQ(layers.size(), 128U);
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers[1], 1);
  EXPECT_EQ(layers.back(), 0);
  EXPECT_EQ(Complete(request, 4, {.count = 14}).parallelism.stage_layers,
            (std::vector<std::int64_t>{3, 4, 4, 3}));
}

// nanotron, with weights of 100 per block and 250 for the head: 1250 in all. On two stages, the
// first takes blocks until they have more than 625, which are 7. On four, the parts end at 312.5,
// 625 and 937.5: 4, 7 and 10 blocks, and only the head on the last.
TEST(Complete, StagesOfNanotronHaveAboutAsManyWeights) {
  Request request = Minimal(Framework::kNanotron, 1);
  request.pipeline = 2;
  const ModelBlocks model{.count = 10, .of_block = 100, .of_head = 250};
  EXPECT_EQ(StageLayersOf(request, model, 2), (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(StageLayersOf(request, model, 4), (std::vector<std::int64_t>{4, 3, 3, 0}));
  // Exactly the part is not more than it: 5 blocks of 10 where there is no head.
  EXPECT_EQ(StageLayersOf(request, {.count = 10, .of_block = 100}, 2),
            (std::vector<std::int64_t>{6, 4}));
  // The blocks end before the last stage begins.
  EXPECT_TRUE(StageLayersOf(request, {.count = 2, .of_block = 100, .of_head = 900}, 3).empty());
}

// torchtitan: 10 blocks and two ends on 5 chunks are 3, 3, 2, 2 and 2, including the ends.
TEST(Complete, StagesOfTorchtitanDifferByOne) {
  Request request = Minimal(Framework::kFsdp2, 3);
  request.pipeline = 5;
  const std::vector<std::int64_t> expected = {2, 3, 2, 2, 1};
  EXPECT_EQ(StageLayersOf(request, {.count = 10}, 5), expected);
  EXPECT_EQ(StageLayersOf(request, {.count = 10, .has_ends = false}, 4),
            (std::vector<std::int64_t>{3, 3, 2, 2}));
  EXPECT_TRUE(StageLayersOf(request, {.count = 2}, 5).empty());
  request.gradient_accumulation = 5;
  const Plan plan = Complete(request, 5, {.count = 10});
  EXPECT_EQ(plan.parallelism.stage_layers, expected);
  EXPECT_EQ(plan.data_parallel.reshard_after_forward, ReshardAfterForward(false));
  EXPECT_TRUE(plan.data_parallel.accumulate_unsharded);
}

// torchao's float8 layers have dynamic scales; Transformer Engine's default recipe has delayed
// ones.
TEST(Complete, ScalesOfFp8FollowTheFramework) {
  Request request = Minimal(Framework::kFsdp2, 3);
  request.precision = DataType::kFp8;
  EXPECT_EQ(Complete(request, 1).training.fp8_scaling, model::Fp8Scaling::kTorchao);
  request.fp8_scaling = model::Fp8Scaling::kCurrent;
  EXPECT_EQ(Complete(request, 1).training.fp8_scaling, model::Fp8Scaling::kCurrent);
  request = Minimal(Framework::kMegatron, 1);
  request.precision = DataType::kFp8;
  EXPECT_EQ(Complete(request, 1).training.fp8_scaling, model::Fp8Scaling::kDelayed);
}

TEST(Complete, ChoosesTypesByPrecision) {
  Request request = Minimal(Framework::kReference, 0);
  request.precision = DataType::kFp8;
  Training training = Complete(request, 1).training;
  EXPECT_EQ(training.parameter_dtype, DataType::kBf16);
  EXPECT_EQ(training.gradient_dtype, DataType::kBf16);
  EXPECT_EQ(training.reduce_dtype, DataType::kBf16);

  request.precision = DataType::kNvfp4;
  EXPECT_EQ(Complete(request, 1).training.parameter_dtype, DataType::kBf16);

  // Parameters in FP32 under bf16 compute: the textbook reduces in the parameters' type, fsdp2 in
  // the computed one.
  request.precision = DataType::kBf16;
  request.parameter_dtype = DataType::kFp32;
  training = Complete(request, 1).training;
  EXPECT_EQ(training.gradient_dtype, DataType::kFp32);
  EXPECT_EQ(training.reduce_dtype, DataType::kFp32);
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  training = Complete(request, 1).training;
  EXPECT_EQ(training.gradient_dtype, DataType::kFp32);
  EXPECT_EQ(training.reduce_dtype, DataType::kBf16);
  // FSDP2 casts reduced gradients to the parameters' type, whatever is asked for.
  request.gradient_dtype = DataType::kBf16;
  EXPECT_EQ(Complete(request, 1).training.gradient_dtype, DataType::kFp32);
}

// PyTorch's optimizers update the parameters directly; LAMB, the textbook and the others have FP32
// values. 16-bit moments belong to Megatron-LM's precision-aware optimizer, with remainders for
// bf16 parameters and without copies of gradients.
TEST(Complete, KeepsTheMasterWeightsOfTheFramework) {
  const auto states = [](Framework framework, int stage, const auto& change) {
    Request request = Minimal(framework, stage);
    change(request);
    const Training training = Complete(request, 8).training;
    return std::pair(training.master_weights, training.optimizer_state_dtype);
  };
  const auto nothing = [](Request&) {};
  const std::pair fp32(MasterWeights::kFp32, DataType::kFp32);
  const std::pair own(MasterWeights::kNone, DataType::kBf16);
  EXPECT_EQ(states(Framework::kDdp, 0, nothing), own);
  EXPECT_EQ(states(Framework::kFsdp1, 3, nothing), own);
  EXPECT_EQ(states(Framework::kFsdp2, 3, nothing), own);
  EXPECT_EQ(states(Framework::kReference, 0, nothing), fp32);
  EXPECT_EQ(states(Framework::kDeepSpeed, 2, nothing), fp32);
  EXPECT_EQ(states(Framework::kMegatron, 1, nothing), fp32);
  EXPECT_EQ(states(Framework::kNanotron, 1, nothing), fp32);
  EXPECT_EQ(states(Framework::kDdp, 0, [](Request& r) { r.optimizer = Optimizer::kLamb; }), fp32);
  EXPECT_EQ(states(Framework::kFsdp2, 3, [](Request& r) { r.parameter_dtype = DataType::kFp32; }),
            std::pair(MasterWeights::kNone, DataType::kFp32));
  EXPECT_EQ(
      states(Framework::kFsdp2, 3, [](Request& r) { r.master_weights = MasterWeights::kFp32; }),
      fp32);
  EXPECT_EQ(
      states(Framework::kReference, 3, [](Request& r) { r.master_weights = MasterWeights::kNone; }),
      own);
  const auto short_moments = [](Request& r) { r.optimizer_state_dtype = DataType::kBf16; };
  EXPECT_EQ(states(Framework::kMegatron, 1, short_moments),
            std::pair(MasterWeights::kFp16Remainder, DataType::kBf16));
  Request request = Minimal(Framework::kMegatron, 1);
  EXPECT_TRUE(Complete(request, 8).data_parallel.copy_main_gradients);
  short_moments(request);
  EXPECT_FALSE(Complete(request, 8).data_parallel.copy_main_gradients);
}

TEST(Complete, MegatronAddsUpNormsGradientsInStages) {
  using model::Implementation;
  EXPECT_EQ(Complete(Minimal(Framework::kMegatron, 0), 8).training.norm, Implementation::kApex);
  EXPECT_EQ(Complete(Minimal(Framework::kReference, 0), 8).training.rotary, Implementation::kFused);
  Request request = Minimal(Framework::kDdp, 0);
  EXPECT_EQ(Complete(request, 8).training.norm, Implementation::kFused);
  EXPECT_EQ(Complete(request, 8).training.rotary, Implementation::kEager);
  // PyTorch's RMSNorm is one kernel since 2.9.
  request.torch = Version{2, 8};
  EXPECT_EQ(Complete(request, 8).training.norm, Implementation::kEager);
  request.compile = true;
  EXPECT_EQ(Complete(request, 8).training.norm, Implementation::kCompiled);
  EXPECT_EQ(Complete(request, 8).training.rotary, Implementation::kCompiled);
}

TEST(Complete, FusesSwiGluForMegatronAndRepeatsKeysInEagerCode) {
  using model::Implementation;
  const auto training = [](Framework framework) {
    return Complete(Minimal(framework, 0), 8).training;
  };
  EXPECT_EQ(training(Framework::kMegatron).activation_function, Implementation::kFused);
  EXPECT_EQ(training(Framework::kDdp).activation_function, Implementation::kEager);
  EXPECT_FALSE(training(Framework::kMegatron).repeat_kv);
  EXPECT_TRUE(training(Framework::kDdp).repeat_kv);
  Request request = Minimal(Framework::kDdp, 0);
  request.compile = true;
  EXPECT_EQ(Complete(request, 8).training.activation_function, Implementation::kCompiled);
  EXPECT_FALSE(Complete(request, 8).training.repeat_kv);
}

// FSDP and Megatron cast parameters themselves.
TEST(Complete, AutocastIsDdpWithFp32Parameters) {
  for (const Framework framework : {Framework::kDdp, Framework::kReference}) {
    Request request = Minimal(framework, 0);
    request.precision = DataType::kBf16;
    request.parameter_dtype = DataType::kFp32;
    EXPECT_EQ(Complete(request, 8).training.autocast, framework == Framework::kDdp);
    request.parameter_dtype = DataType::kBf16;
    EXPECT_FALSE(Complete(request, 8).training.autocast);
    request.parameter_dtype = DataType::kFp32;
    request.precision = DataType::kTf32;
    EXPECT_FALSE(Complete(request, 8).training.autocast);
  }
}

TEST(Complete, TakesReshardingToOneOrToAllForWhatItIs) {
  Request request = Minimal(Framework::kReference, 3);
  request.reshard_after_forward = ReshardAfterForward(std::int64_t{1});
  EXPECT_EQ(Complete(request, 8).data_parallel.reshard_after_forward, ReshardAfterForward(false));
  request.reshard_after_forward = ReshardAfterForward(std::int64_t{8});
  EXPECT_EQ(Complete(request, 8).data_parallel.reshard_after_forward, ReshardAfterForward(true));
  // With two parts of each sequence, four ranks of data share states with their twins: eight.
  request.context = 2;
  EXPECT_EQ(Complete(request, 8).data_parallel.reshard_after_forward, ReshardAfterForward(true));
  request.reshard_after_forward = ReshardAfterForward(std::int64_t{4});
  EXPECT_EQ(Complete(request, 8).data_parallel.reshard_after_forward,
            ReshardAfterForward(std::int64_t{4}));
  request.context.reset();
  EXPECT_EQ(Complete(request, 8).data_parallel.reshard_after_forward,
            ReshardAfterForward(std::int64_t{4}));
}

TEST(Complete, FusesTheUpdateOfTheTextbookOnly) {
  EXPECT_EQ(Complete(Minimal(Framework::kReference, 0), 1).training.optimizer_implementation,
            OptimizerImplementation::kFused);
  EXPECT_EQ(Complete(Minimal(Framework::kDdp, 0), 1).training.optimizer_implementation,
            OptimizerImplementation::kForeach);
}

TEST(Complete, OldOptimizersGoOneByOne) {
  for (const auto& [framework, stage] : {std::pair{Framework::kDdp, 0}, {Framework::kFsdp1, 3}}) {
    Request request = Minimal(framework, stage);
    request.torch = Version{1, 13};
    EXPECT_EQ(Complete(request, 8).training.optimizer_implementation,
              OptimizerImplementation::kSingle);
    request.torch = Version{2, 0};
    EXPECT_EQ(Complete(request, 8).training.optimizer_implementation,
              OptimizerImplementation::kForeach);
  }
}

TEST(Complete, BucketsOfTheReferenceDependOnOverlapAndStage) {
  Request request = Minimal(Framework::kReference, 2);
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, MiB(25));
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(25));
  request.overlap = false;
  // With several micro-batches stage 2 reduces each one's gradients, bucket by bucket.
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, MiB(25));
  request.gradient_accumulation = 1;
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, std::nullopt);
  request.overlap = true;
  request.zero_stage = 3;
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, std::nullopt);
  request.bucket_size = MiB(5);
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, MiB(5));
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(5));
  request.first_bucket_size = MiB(1);
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(1));
}

// Since torch 2.0, an explicit bucket_cap_mb also applies to the first bucket.
TEST(Complete, FirstBucketOfDdpFollowsTheVersion) {
  Request request = Minimal(Framework::kDdp, 0);
  EXPECT_EQ(Complete(request, 8).data_parallel.bucket_size, MiB(25));
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(1));
  request.bucket_size = MiB(50);
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(50));
  request.torch = Version{2, 0};
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(50));
  request.torch = Version{1, 13};
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(1));
  request.first_bucket_size = MiB(2);
  EXPECT_EQ(Complete(request, 8).data_parallel.first_bucket_size, MiB(2));
}

// BACKWARD_PRE became the default with torch 2.0, limit_all_gathers with 2.1.
TEST(Complete, SettingsOfFsdp1FollowTheVersion) {
  Request request = Minimal(Framework::kFsdp1, 3);
  const auto completed = [&request](Version torch) {
    request.torch = torch;
    return Complete(request, 8).data_parallel;
  };
  EXPECT_EQ(completed({2, 6}).backward_prefetch, BackwardPrefetch::kPre);
  EXPECT_TRUE(completed({2, 6}).limit_all_gathers);
  EXPECT_FALSE(completed({2, 6}).forward_prefetch);
  EXPECT_FALSE(completed({2, 6}).use_orig_params);
  EXPECT_EQ(completed({2, 0}).backward_prefetch, BackwardPrefetch::kPre);
  EXPECT_FALSE(completed({2, 0}).limit_all_gathers);
  EXPECT_EQ(completed({1, 13}).backward_prefetch, BackwardPrefetch::kNone);
  request.limit_all_gathers = true;
  EXPECT_TRUE(completed({1, 13}).limit_all_gathers);
}

// MixedPrecision's rules are those of FSDP2: gradients are kept in the parameters' type and reduced
// in the compute type by default.
TEST(Complete, TypesOfFsdp1AreThoseOfMixedPrecision) {
  Request request = Minimal(Framework::kFsdp1, 3);
  request.parameter_dtype = DataType::kFp32;
  request.gradient_dtype = DataType::kBf16;
  EXPECT_EQ(Complete(request, 8).training.gradient_dtype, DataType::kFp32);
  EXPECT_EQ(Complete(request, 8).training.reduce_dtype, DataType::kBf16);
  request.reduce_dtype = DataType::kFp32;
  EXPECT_EQ(Complete(request, 8).training.reduce_dtype, DataType::kFp32);
  EXPECT_EQ(Complete(Minimal(Framework::kFsdp1, 2), 8).data_parallel.reshard_after_forward,
            ReshardAfterForward(false));
}

TEST(Complete, Stage2OfFsdp2KeepsParametersWhole) {
  EXPECT_EQ(Complete(Minimal(Framework::kFsdp2, 2), 8).data_parallel.reshard_after_forward,
            ReshardAfterForward(false));
  EXPECT_EQ(Complete(Minimal(Framework::kFsdp2, 3), 8).data_parallel.reshard_after_forward,
            ReshardAfterForward(true));
  EXPECT_EQ(Complete(Minimal(Framework::kFsdp2, 3), 8).data_parallel.shard_group_size, 8);
}

// Gives a value other than the setting's default. False if the setting has its own notation.
bool GiveAnother(const DataParallelSetting& setting, const DataParallel& defaults,
                 Request& request) {
  return std::visit(
      [&](const auto& type) {
        if constexpr (requires { type.least; }) {
          request.*type.given = defaults.*type.kept == type.least ? type.least + 1 : type.least;
          return true;
        } else if constexpr (requires { type.kept; }) {
          request.*type.given = !(defaults.*type.kept);
          return true;
        } else if constexpr (requires { type.give; }) {
          const bool first = type.name(defaults) == type.words.front();
          type.give(request, first ? type.words.size() - 1 : 0);
          return true;
        }
        return false;
      },
      setting.type);
}

TEST(Complete, SettingsWithoutEffectLeaveThePlanAsItIs) {
  int given = 0;
  for (const Framework framework : kFrameworks) {
    const FrameworkTraits& traits = TraitsOf(framework);
    for (int stage = traits.first_stage; stage <= traits.last_stage; ++stage) {
      const DataParallel plan = Complete(Minimal(framework, stage), 8).data_parallel;
      for (const DataParallelSetting& setting : DataParallelSettings()) {
        if (!setting.uses.Has(framework) || setting.uses.HasEffect(framework, stage)) continue;
        Request request = Minimal(framework, stage);
        if (!GiveAnother(setting, plan, request)) continue;
        ++given;
        EXPECT_EQ(Complete(request, 8).data_parallel, plan)
            << Name(framework) << " at stage " << stage << ": " << setting.key;
      }
    }
  }
  EXPECT_GT(given, 20);
}

RC_GTEST_PROP(Complete, KeepsTheBatchEquation, ()) {
  Request request = Minimal(Framework::kReference, *rc::gen::inRange(0, 4));
  const std::int64_t devices = *rc::gen::inRange(1, 2000);
  request.micro_batch_size = *rc::gen::inRange(1, 9);
  const std::int64_t steps = *rc::gen::inRange(1, 100);
  if (*rc::gen::arbitrary<bool>()) {
    request.gradient_accumulation.reset();
    request.global_batch_size = steps * *request.micro_batch_size * devices;
  } else {
    request.gradient_accumulation = steps;
  }
  const Training training = Complete(request, devices).training;
  RC_ASSERT(training.gradient_accumulation == steps);
  RC_ASSERT(training.global_batch_size ==
            training.micro_batch_size * training.gradient_accumulation * devices);
}

// Features that not every kernel supports: torchtitan compiles FlexAttention; Transformer Engine
// uses cuDNN's kernel with sinks from the release that has it; others compute scores in memory.
TEST(Complete, AttentionIsWhatTheModelCanTake) {
  using model::Attention;
  const auto attention = [](Framework framework, Version torch, const ModelBlocks& blocks,
                            std::optional<model::ExpertImplementation> experts = std::nullopt,
                            std::int64_t context = 1) {
    Request request = Minimal(framework, 0);
    request.torch = torch;
    request.compute_capability = 90;
    request.expert_implementation = experts;
    request.context = context;
    return Complete(request, 8, blocks).training.attention;
  };
  const ModelBlocks sinks{.attention_sinks = true}, latent{.narrow_values = true},
      chunks{.attention_chunks = true};
  for (const ModelBlocks& blocks : {sinks, latent, chunks}) {
    EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, blocks), Attention::kFlex);
  }
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, {}), Attention::kCudnn);
  constexpr auto kTransformers = model::ExpertImplementation::kTransformers;
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, sinks, kTransformers), Attention::kMath);
  EXPECT_EQ(attention(Framework::kFsdp2, {2, 11}, latent, kTransformers), Attention::kCudnn);
  EXPECT_EQ(attention(Framework::kDeepSpeed, {2, 11}, sinks), Attention::kMath);
  EXPECT_EQ(attention(Framework::kMegatron, {2, 11}, sinks), Attention::kCudnn);
  EXPECT_EQ(attention(Framework::kMegatron, {2, 10}, sinks), Attention::kMath);
  EXPECT_EQ(attention(Framework::kMegatron, {2, 10}, sinks, std::nullopt, 2), Attention::kFlash);
}

}  // namespace
}  // namespace stepcast::plan
