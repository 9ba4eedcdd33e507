#include "src/plan/legality.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

TEST(Check, AcceptsEveryStageOfTheReferenceWithEveryKey) {
  for (int stage = 0; stage <= 3; ++stage) {
    Request request = Legal();
    request.zero_stage = stage;
    request.overlap = false;
    request.bucket_size = MiB(1);
    request.first_bucket_size = MiB(1);
    request.prefetch = 2;
    request.reshard_after_forward = ReshardAfterForward(std::int64_t{2});
    request.accumulate_unsharded = true;
    request.shard_group_size = 4;
    request.gradient_as_bucket_view = true;
    request.find_unused_parameters = true;
    request.backward_prefetch = BackwardPrefetch::kPost;
    request.forward_prefetch = true;
    request.limit_all_gathers = false;
    request.use_orig_params = true;
    EXPECT_TRUE(Check(request, EightDevices()).empty()) << stage;
  }
}

Request DeepSpeedAt(int stage) {
  Request request = Legal();
  request.framework = Framework::kDeepSpeed;
  request.zero_stage = stage;
  return request;
}

// FP32 accumulation exists at stages 1 and 3; no other gradients have a different type.
TEST(Check, DeepSpeedAccumulatesInFp32AtStagesOneAndThree) {
  for (int stage = 0; stage <= 3; ++stage) {
    Request request = DeepSpeedAt(stage);
    EXPECT_TRUE(Check(request, EightDevices()).empty()) << stage;
    request.gradient_dtype = DataType::kFp32;
    EXPECT_EQ(Check(request, EightDevices()).size(), stage % 2 == 1 ? 0U : 1U) << stage;
    request.gradient_dtype = DataType::kFp16;
    EXPECT_EQ(Check(request, EightDevices()).size(), 1U) << stage;
    request = DeepSpeedAt(stage);
    request.parameter_dtype = DataType::kFp32;
    const auto violations = Check(request, EightDevices());
    ASSERT_EQ(violations.size(), 1U) << stage;
    EXPECT_EQ(violations[0].code, "plan.dtype-not-of-framework");
  }
}

std::vector<std::string> CodesOf(const Request& request, const Facts& facts) {
  std::vector<std::string> codes;
  for (const Violation& violation : Check(request, facts)) codes.push_back(violation.code);
  return codes;
}

TEST(Check, OffloadNeedsItsStageAndAHost) {
  using Codes = std::vector<std::string>;
  Facts facts = EightDevices();
  facts.host_memory = true;
  facts.nvme = false;
  Request request = DeepSpeedAt(2);
  request.deepspeed.emplace();
  request.deepspeed->offload_optimizer = OffloadDevice::kCpu;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request.deepspeed->offload_optimizer = OffloadDevice::kNvme;
  EXPECT_EQ(CodesOf(request, facts), (Codes{"plan.offload-stage", "plan.no-nvme"}));
  request.zero_stage = 3;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.no-nvme"});
  facts.host_memory = false;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.no-host-memory"});
  request.deepspeed->offload_optimizer = OffloadDevice::kNone;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request = DeepSpeedAt(2);
  request.deepspeed.emplace();
  request.deepspeed->offload_param = OffloadDevice::kCpu;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{"plan.offload-stage"});
}

// no_sync: false is for whole gradients, which ddp, megatron and reference at stages 0 and 1 have.
TEST(Check, ReductionsInEveryMicroBatchNeedWholeGradients) {
  using Codes = std::vector<std::string>;
  Request request = Legal();
  request.no_sync = false;
  for (const Framework framework : {Framework::kReference, Framework::kMegatron}) {
    request.framework = framework;
    for (int stage = 0; stage <= 1; ++stage) {
      request.zero_stage = stage;
      EXPECT_EQ(CodesOf(request, EightDevices()), Codes{}) << Name(framework) << stage;
    }
  }
  request.framework = Framework::kReference;
  request.zero_stage = 2;
  auto violations = Check(request, EightDevices());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].key, "data_parallel.no_sync");
  EXPECT_EQ(violations[0].hint, "remove no_sync, and write accumulate_unsharded: false");
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  violations = Check(request, EightDevices());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].hint, "remove the key; fsdp2 uses accumulate_unsharded instead");
  request = Legal();
  request.no_sync = false;
  request.pipeline = 2;
  request.data.reset();
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{"plan.axis-not-supported-with"});
}

// Another setting does the same: the hint names it.
TEST(Check, HintsNameTheSettingThatTheFrameworkHasInstead) {
  Request request = Legal();
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  request.bucket_size = MiB(25);
  const auto violations = Check(request, EightDevices());
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].hint, "remove the key; fsdp2 uses unit_blocks instead");
}

TEST(Check, OnlyMegatronsRanksShareAKeyValueHead) {
  using Codes = std::vector<std::string>;
  Facts facts = EightDevices();
  facts.divided = {{"num_attention_heads", 32}, {"num_key_value_heads", 2, 64}};
  Request request = Legal();
  request.framework = Framework::kMegatron;
  request.tensor = 4;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request.framework = Framework::kReference;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.tensor-division"});
  // One head has no divisor that could be chosen.
  facts.divided[1].extent = 1;
  EXPECT_EQ(Check(request, facts)[0].hint,
            "write tensor: 1, or framework: megatron, which keeps a copy of the key-value head on "
            "each rank");
  facts.divided[1].extent = 2;
  // Two heads of three columns do not divide among eight ranks.
  request.framework = Framework::kMegatron;
  facts.divided[1].columns = 3;
  request.tensor = 8;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.tensor-division"});
}

TEST(Check, LambNeedsWholeTensors) {
  using Codes = std::vector<std::string>;
  const Codes refused{"plan.optimizer-not-of-framework"};
  Request request = Legal();
  request.optimizer = Optimizer::kLamb;
  request.framework = Framework::kDdp;
  request.zero_stage = 0;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{});
  request.optimizer_implementation = OptimizerImplementation::kForeach;
  EXPECT_EQ(CodesOf(request, EightDevices()), refused);
  request.optimizer_implementation.reset();
  request.framework = Framework::kMegatron;
  EXPECT_EQ(CodesOf(request, EightDevices()), refused);
  request.framework = Framework::kReference;
  request.zero_stage = 2;
  EXPECT_EQ(CodesOf(request, EightDevices()), refused);
  request.zero_stage = 0;
  request.tensor = 2;
  EXPECT_EQ(CodesOf(request, EightDevices()), refused);
}

TEST(Check, DocumentsFillASequence) {
  using Codes = std::vector<std::string>;
  Request request = Legal();
  request.sequence_length = 1024;
  request.document_length = 256;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{});
  request.document_length = 200;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{"plan.document-length"});
  request.document_length = 2048;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{"plan.document-length"});
  request.document_length = 256;
  request.attention = model::Attention::kMath;
  EXPECT_EQ(CodesOf(request, EightDevices()), Codes{"plan.document-length"});
}

TEST(Check, OnlyEncodersPredictMaskedTokens) {
  using Codes = std::vector<std::string>;
  Facts facts = EightDevices();
  Request request = Legal();
  request.masked_tokens = 20;
  request.sequence_length = 128;
  EXPECT_EQ(CodesOf(request, facts), Codes{});  // what the model is is not known
  facts.encoder = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request.masked_tokens = 129;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.masked-tokens"});
  facts.encoder = false;
  request.masked_tokens = 20;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.masked-tokens"});
  // An encoder's tokens are not divided.
  request.masked_tokens.reset();
  request.framework = Framework::kMegatron;
  request.tensor = 2;
  request.sequence_parallel = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  facts.encoder = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.axis-not-supported-with"});
  // Blocks that begin with a product are refused as well.
  facts.encoder = false;
  facts.norms_behind = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.axis-not-supported-with"});
  request.sequence_parallel = false;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
}

TEST(Check, TheLoopsSettingsNeedWhatTheyAreAbout) {
  using Codes = std::vector<std::string>;
  Facts facts = EightDevices();
  facts.host_memory = false;
  Request request = Legal();
  request.activation_offload = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.no-host-memory"});
  facts.host_memory = true;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request.optimizer_implementation = OptimizerImplementation::kSingle;
  request.checkpointed_blocks = model::Share{1, 2};
  request.expandable_segments = true;
  EXPECT_EQ(CodesOf(request, facts),
            (Codes{"plan.optimizer-not-of-framework", "plan.no-checkpoints", "plan.no-allocator"}));
  request.framework = Framework::kDdp;
  request.activation_checkpointing = model::Checkpointing::kFull;
  request.host_waits = HostWaits::kMicroBatch;
  EXPECT_EQ(CodesOf(request, facts), Codes{});
  request.units = WrappedUnits::kLayer;
  EXPECT_EQ(CodesOf(request, facts), Codes{"plan.key-not-of-framework"});
}

TEST(Check, SecondaryPartitionsDivideTheRanks) {
  Request request = DeepSpeedAt(3);
  request.deepspeed.emplace();
  request.deepspeed->hpz_partition_size = 4;
  EXPECT_TRUE(Check(request, EightDevices()).empty());
  request.deepspeed->hpz_partition_size = 3;
  EXPECT_EQ(CodesOf(request, EightDevices()), std::vector<std::string>{"plan.shard-group"});
  request.deepspeed->hpz_partition_size.reset();
  request.deepspeed->quantized_gradients = true;
  EXPECT_TRUE(Check(request, EightDevices()).empty());
  request.deepspeed->reduce_scatter = false;
  EXPECT_EQ(CodesOf(request, EightDevices()), std::vector<std::string>{"plan.quantized-gradients"});
}

TEST(KeysWithoutEffect, AreNamedOfDeepSpeedToo) {
  Request request = DeepSpeedAt(2);
  request.deepspeed.emplace();
  request.deepspeed->sub_group_size = 1;
  request.deepspeed->reduce_bucket_size = 1;
  EXPECT_EQ(KeysWithoutEffect(request),
            std::vector<std::string>{
                "data_parallel.deepspeed.sub_group_size has no effect at zero_stage 2"});
}

TEST(Check, NamesEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) {
         r.torch = Version{1, 9};
       },
       "software.torch", "plan.version-not-modelled",
       "stepcast models torch only from version 1.10 to 2.14, but the version is 1.9"},
      {[](Request& r) {
         r.nccl = Version{3, 0};
       },
       "software.nccl", "plan.version-not-modelled",
       "stepcast models nccl only from version 2.10 to 2.30, but the version is 3.0"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.torch = Version{2, 3};
       },
       "software.torch", "plan.version-without-framework",
       "fsdp2 was introduced in torch 2.4 and does not exist in 2.3"},
      {[](Request& r) {
         r.framework = Framework::kFsdp1;
         r.zero_stage = 3;
         r.torch = Version{1, 11};
       },
       "software.torch", "plan.version-without-framework",
       "fsdp1 was introduced in torch 1.12 and does not exist in 1.11"},
      {[](Request& r) {
         r.framework = Framework::kFsdp1;
         r.zero_stage = 3;
         r.shard_group_size = 4;
         r.torch = Version{1, 13};
       },
       "data_parallel.shard_group_size", "plan.version-without-setting",
       "fsdp1's shard_group_size was introduced in torch 2.0 and does not exist in 1.13"},
      {[](Request& r) {
         r.framework = Framework::kFsdp1;
         r.zero_stage = 3;
         r.limit_all_gathers = true;
         r.torch = Version{1, 12};
       },
       "data_parallel.limit_all_gathers", "plan.version-without-setting",
       "fsdp1's limit_all_gathers was introduced in torch 1.13 and does not exist in 1.12"},
      {[](Request& r) { r.sequence_length = 1025; }, "training.sequence_length",
       "plan.sequence-too-long",
       "the model has 1024 position embeddings, but sequence_length is "
       "1025"},
      {[](Request& r) { r.micro_batch_size = 16'385; }, "training.micro_batch_size",
       "plan.too-many-tokens",
       // 2^24 / 1024 = 16,384
       "a micro-batch of 16385 x 1024 tokens exceeds the maximum of 16777216"},
      {[](Request& r) { r.precision = DataType::kFp8; }, "training.precision",
       "plan.precision-not-of-device", "a100-sxm-40gb does not compute in fp8"},
      {[](Request& r) {
         r.activation_checkpointing = model::Checkpointing::kSelective;
         r.blocks_per_checkpoint = 4;
       },
       "training.blocks_per_checkpoint", "plan.no-checkpoints",
       "activation_checkpointing is selective, but blocks_per_checkpoint is 4"},
      {[](Request& r) {
         r.activation_checkpointing = model::Checkpointing::kFull;
         r.blocks_per_checkpoint = 4;
         r.checkpoint_early_stop = true;
       },
       "training.blocks_per_checkpoint", "plan.checkpoints",
       "checkpoint_early_stop: true is modelled only for checkpoints of one block, but "
       "blocks_per_checkpoint is 4"},
      {[](Request& r) { r.global_batch_size = 64; }, "training.global_batch_size", "plan.batch",
       "gradient_accumulation 4 and global_batch_size 64 cannot both be set"},
      {[](Request& r) {
         r.gradient_accumulation.reset();
         r.global_batch_size = 40;
       },
       "training.global_batch_size", "plan.batch",
       "global_batch_size 40 is not a multiple of micro_batch_size 2 x data 8 = 16"},
      {[](Request& r) { r.gradient_accumulation = 2049; }, "training.gradient_accumulation",
       "plan.too-many-micro-batches", "a step of 2049 micro-batches exceeds the maximum of 2048"},
      {[](Request& r) {
         r.framework = Framework::kDdp;
         r.zero_stage = 1;
       },
       "data_parallel.zero_stage", "plan.stage-not-of-framework",
       "ddp keeps full copies of the model states (stage 0): zero_stage is 1"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 1;
       },
       "data_parallel.zero_stage", "plan.stage-not-of-framework",
       "fsdp2 shards parameters (stage 3, or stage 2 without resharding): zero_stage is 1"},
      {[](Request& r) {
         r.framework = Framework::kFsdp1;
         r.zero_stage = 0;
       },
       "data_parallel.zero_stage", "plan.stage-not-of-framework",
       "fsdp1 shards parameters (stage 3, or stage 2 without resharding): zero_stage is 0"},
      {[](Request& r) {
         r.framework = Framework::kFsdp1;
         r.zero_stage = 3;
         r.reshard_after_forward = ReshardAfterForward(false);
       },
       "data_parallel.reshard_after_forward", "plan.key-not-of-framework",
       "the framework fsdp1 has no setting reshard_after_forward"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.limit_all_gathers = true;
       },
       "data_parallel.limit_all_gathers", "plan.key-not-of-framework",
       "the framework fsdp2 has no setting limit_all_gathers"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.zero_stage = 3;
       },
       "data_parallel.zero_stage", "plan.stage-not-of-framework",
       "megatron keeps full copies of the model states (stage 0) or uses its distributed optimizer "
       "(stage 1): zero_stage is 3"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.reduce_dtype = DataType::kBf16;
       },
       "training.reduce_dtype", "plan.dtype-not-of-framework",
       "megatron reduces main gradients without a change of type, in fp32, but reduce_dtype is "
       "bf16"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.zero_stage = 1;
         r.overlap = false;
         r.overlap_param_gather = true;
       },
       "data_parallel.overlap_param_gather", "plan.overlap",
       "overlap_param_gather needs gradients that are reduced during backward, but overlap is "
       "false"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.zero_stage = 2;
       },
       "data_parallel.zero_stage", "plan.stage-not-of-framework",
       "nanotron keeps full copies of the model states (stage 0) or shards the optimizer states "
       "(stage 1): zero_stage is 2"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.precision = DataType::kFp32;
       },
       "training.precision", "plan.dtype-not-of-framework",
       "nanotron's gradient accumulator needs 16-bit parameters, but precision is fp32"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.gradient_dtype = DataType::kBf16;
       },
       "training.gradient_dtype", "plan.dtype-not-of-framework",
       "nanotron accumulates gradients in fp32, but gradient_dtype is bf16"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.parameter_dtype = DataType::kFp32;
       },
       "training.parameter_dtype", "plan.dtype-not-of-framework",
       "nanotron keeps parameters in bf16, but parameter_dtype is fp32"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.overlap = false;
       },
       "data_parallel.overlap", "plan.key-not-of-framework",
       "the framework nanotron has no "
       "setting overlap"},
      {[](Request& r) {
         r.framework = Framework::kDdp;
         r.reduce_dtype = DataType::kFp32;
       },
       "training.reduce_dtype", "plan.dtype-not-of-framework",
       "ddp reduces gradients in the type of the parameters, bf16, but reduce_dtype is fp32"},
      {[](Request& r) {
         r.framework = Framework::kDdp;
         r.parameter_dtype = DataType::kFp32;
         r.gradient_dtype = DataType::kBf16;
       },
       "training.gradient_dtype", "plan.dtype-not-of-framework",
       "ddp reduces gradients in the type of the parameters, fp32, but gradient_dtype is bf16"},
      {[](Request& r) {
         r.framework = Framework::kDdp;
         r.prefetch = 1;
       },
       "data_parallel.prefetch", "plan.key-not-of-framework",
       "the framework ddp has no setting "
       "prefetch"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.bucket_size = MiB(25);
       },
       "data_parallel.bucket_size", "plan.key-not-of-framework",
       "the framework fsdp2 has no setting bucket_size"},
      {[](Request& r) { r.bucket_size = PerUnit{}; }, "data_parallel.bucket_size", "plan.bucket",
       "bucket_size: unit needs framework: reference with zero_stage: 3, but zero_stage is 0 and "
       "framework is reference"},
      {[](Request& r) { r.shard_group_size = 3; }, "data_parallel.shard_group_size",
       "plan.shard-group", "shard_group_size 3 is not a divisor of data 8"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 2;
         r.reshard_after_forward = ReshardAfterForward(true);
       },
       "data_parallel.reshard_after_forward", "plan.reshard",
       "at zero_stage 2, fsdp2 keeps complete parameters after forward, but reshard_after_forward "
       "is true"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.shard_group_size = 4;
         r.reshard_after_forward = ReshardAfterForward(std::int64_t{8});
       },
       "data_parallel.reshard_after_forward", "plan.reshard",
       "reshard_after_forward 8 is not a divisor of shard_group_size 4"},
      // Eight ranks, two of which share out each layer: ranks 0 and 1 have other parts of it.
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.tensor = 2;
         r.reshard_after_forward = ReshardAfterForward(std::int64_t{2});
       },
       "data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
       "with tensor 2, reshard_after_forward must be true or false, but is 2"},
      {[](Request& r) {
         r.zero_stage = 3;
         r.tensor = 2;
         r.reshard_after_forward = ReshardAfterForward(std::int64_t{2});
       },
       "data_parallel.reshard_after_forward", "plan.axis-not-supported-with",
       "with tensor 2, reshard_after_forward must be true or false, but is 2"},
  };
  ExpectEach(cases);
}

// Two data ranks with two parts of each sequence share states: four ranks.
TEST(Check, CountsRanksThatHavePartsOfASequenceAmongThoseThatShareStates) {
  Request request = Legal();
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  request.context = 2;
  request.shard_group_size = 2;
  const auto messages = [&](std::int64_t ranks) {
    request.reshard_after_forward = ReshardAfterForward(ranks);
    std::vector<std::string> said;
    for (const Violation& violation : Check(request, EightDevices())) {
      if (violation.code == "plan.reshard") said.push_back(violation.message);
    }
    return said;
  };
  EXPECT_EQ(messages(4), std::vector<std::string>());
  EXPECT_EQ(messages(8),
            std::vector<std::string>{
                "reshard_after_forward 8 is not a divisor of shard_group_size 2 times context 2"});
}

TEST(Check, KeepsCommunicationHooksToDdp) {
  const auto codes = [](const std::function<void(Request&)>& change) {
    Request request = Legal();
    request.framework = Framework::kDdp;
    request.parameter_dtype = DataType::kFp32;
    change(request);
    std::vector<std::string> found;
    for (const Violation& violation : Check(request, EightDevices())) {
      found.push_back(violation.code + " " + violation.key);
    }
    return found;
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(codes([](Request& r) { r.comm_hook = CommHook::kFp16Compress; }), Codes{});
  EXPECT_EQ(codes([](Request& r) {
              r.comm_hook = CommHook::kPowerSgd;
              r.powersgd.emplace();
              r.powersgd->rank = 4;
              r.powersgd->start_iteration = 2;
            }),
            Codes{});
  EXPECT_EQ(codes([](Request& r) {
              r.framework = Framework::kFsdp2;
              r.zero_stage = 3;
              r.comm_hook = CommHook::kBf16Compress;
            }),
            Codes{"plan.key-not-of-framework data_parallel.comm_hook"});
  EXPECT_EQ(codes([](Request& r) {
              r.parameter_dtype = DataType::kBf16;
              r.comm_hook = CommHook::kBf16Compress;
            }),
            Codes{"plan.comm-hook data_parallel.comm_hook"});
  EXPECT_EQ(codes([](Request& r) { r.powersgd.emplace(); }),
            Codes{"plan.comm-hook data_parallel.powersgd"});
  EXPECT_EQ(codes([](Request& r) {
              r.comm_hook = CommHook::kPowerSgd;
              r.powersgd.emplace();
              r.powersgd->start_iteration = 1;
            }),
            Codes{"plan.comm-hook data_parallel.powersgd.start_powerSGD_iter"});
}

TEST(Check, LoadingAndSavingNeedWhatTheyTake) {
  Request request = Legal();
  request.data_loading.emplace();
  request.data_loading->time = Milliseconds(3);
  request.data_loading->prefetch = 4;
  Facts facts = EightDevices();
  ASSERT_EQ(Check(request, facts).size(), 1u);
  EXPECT_EQ(Check(request, facts)[0].code, "plan.data-loading");
  request.data_loading->workers = 1;
  EXPECT_TRUE(Check(request, facts).empty());

  request.checkpoint_saving.emplace();
  request.checkpoint_saving->mode = CheckpointMode::kAsync;
  facts.host_memory = false;
  ASSERT_EQ(Check(request, facts).size(), 1u);
  EXPECT_EQ(Check(request, facts)[0].code, "plan.no-host-memory");
  EXPECT_EQ(Check(request, facts)[0].key, "training.checkpoint_saving.mode");
  facts.host_memory = true;
  EXPECT_TRUE(Check(request, facts).empty());
  facts.host_memory = false;
  request.checkpoint_saving->mode = CheckpointMode::kSync;
  EXPECT_TRUE(Check(request, facts).empty());
}

TEST(Check, KnowsDriversAndTf32) {
  Request request = Legal();
  request.driver = Version{418, 40};
  ASSERT_EQ(Check(request, EightDevices()).size(), 1u);
  EXPECT_EQ(Check(request, EightDevices())[0].key, "software.driver");
  request.driver = Version{570, 86};
  request.precision = DataType::kTf32;
  EXPECT_TRUE(Check(request, EightDevices()).empty());
  // It is fp32 that megatron keeps then.
  request.framework = Framework::kMegatron;
  request.parameter_dtype = DataType::kFp32;
  EXPECT_TRUE(Check(request, EightDevices()).empty());
  EXPECT_EQ(Complete(request, 8).training.gradient_dtype, DataType::kFp32);
  Facts volta = EightDevices();
  volta.without_peak[static_cast<std::size_t>(DataType::kTf32)] = true;
  ASSERT_EQ(Check(request, volta).size(), 1u);
  EXPECT_EQ(Check(request, volta)[0].code, "plan.precision-not-of-device");
  EXPECT_EQ(Check(request, volta)[0].hint,
            "write a precision that the GPU has: fp32, bf16, fp16, mxfp8, nvfp4");
}

// The values of a key do not matter for a framework without this key.
TEST(Check, SaysOnlyThatTheFrameworkHasNoSuchKey) {
  Request request = Legal();
  request.framework = Framework::kFsdp1;
  request.zero_stage = 3;
  request.activation_checkpointing = model::Checkpointing::kFull;
  request.blocks_per_checkpoint = 4;
  std::vector<std::string> codes;
  for (const Violation& violation : Check(request, EightDevices())) {
    if (violation.key == "training.blocks_per_checkpoint") codes.push_back(violation.code);
  }
  EXPECT_EQ(codes, std::vector<std::string>{"plan.key-not-of-framework"});
}

TEST(Check, FindsSeveralAtOnce) {
  Request request = Legal();
  request.sequence_length = 4096;
  request.data = 3;
  request.shard_group_size = 2;
  std::vector<std::string> codes;
  for (const Violation& violation : Check(request, EightDevices())) codes.push_back(violation.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"plan.sequence-too-long", "plan.device-count",
                                             "plan.shard-group"}));
}

// 2^22 tokens have 2^44 attending pairs; 2^24 tokens over 16 ranks have as many on each rank.
TEST(Check, LimitsTheLengthOfASequence) {
  Request request = Legal();
  request.micro_batch_size = 1;
  request.sequence_length = std::int64_t{1} << 22;
  EXPECT_TRUE(Check(request, Facts()).empty());
  request.sequence_length = std::int64_t{1} << 24;
  request.context = 16;
  for (const Violation& violation : Check(request, Facts())) {
    EXPECT_NE(violation.code, "plan.too-many-tokens");
  }
  request.context.reset();
  request.sequence_length = (std::int64_t{1} << 22) + 1;
  const std::vector<Violation> violations = Check(request, Facts());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].key, "training.sequence_length");
  EXPECT_EQ(violations[0].message,
            "attention over 1 x 4194305 x 4194305 pairs of tokens exceeds the maximum of "
            "17592186044416 pairs per rank: context is 1");
}

TEST(Check, PassesOverRulesWhoseFactsAreUnknown) {
  Request request = Legal();
  request.sequence_length = 4096;
  request.data = 7;
  EXPECT_TRUE(Check(request, Facts()).empty());
  EXPECT_TRUE(Check(Request(), EightDevices()).empty());
  // The data types of the device are unknown.
  for (const DataType type : kDataTypes) {
    request.precision = type;
    EXPECT_TRUE(Check(request, Facts()).empty()) << Name(type);
  }
}

TEST(KeysWithoutEffect, ScalesOfTheStepsBeforeAreFp8s) {
  Request request = Legal();
  request.framework = Framework::kMegatron;
  request.zero_stage = 1;
  request.tp_only_amax_red = true;
  const std::vector<std::string> told = {
      "training.tp_only_amax_red has an effect only with precision: fp8 and fp8_scaling: delayed"};
  EXPECT_EQ(KeysWithoutEffect(request), told);
  request.precision = DataType::kFp8;
  EXPECT_TRUE(KeysWithoutEffect(request).empty());
  request.fp8_scaling = model::Fp8Scaling::kCurrent;
  EXPECT_EQ(KeysWithoutEffect(request), told);
}

TEST(KeysWithoutEffect, DependsOnWhatTheModelHas) {
  Request request = Legal();
  model::Architecture model{.heads = 32, .kv_heads = 8, .position = model::Position::kRotary};
  request.rotary = model::Implementation::kEager;
  request.repeat_kv = true;
  EXPECT_TRUE(KeysWithoutEffectOn(request, model).empty());
  model.kv_heads = 32;
  model.position = model::Position::kLearned;
  EXPECT_EQ(KeysWithoutEffectOn(request, model),
            (std::vector<std::string>{
                "training.rotary has no effect on a model without rotary positions",
                "training.repeat_kv has no effect on a model without grouped queries"}));
}

TEST(KeysWithoutEffect, ExpertsAreSettingsOfMixtures) {
  Request request = Legal();
  request.dispatcher = model::Dispatcher::kDeepEp;
  request.imbalance = 1.2;
  model::Architecture model{.heads = 32, .kv_heads = 32, .position = model::Position::kRotary};
  EXPECT_EQ(
      KeysWithoutEffectOn(request, model),
      (std::vector<std::string>{"experts.dispatcher has no effect on a model without experts",
                                "experts.imbalance has no effect on a model without experts"}));
  model.experts.count = 8;
  EXPECT_TRUE(KeysWithoutEffectOn(request, model).empty());
}

TEST(KeysWithoutEffect, NamesTheGradientsTypeThatFsdp2Decides) {
  Request request = Legal();
  request.framework = Framework::kFsdp2;
  request.zero_stage = 3;
  request.parameter_dtype = DataType::kFp32;
  request.gradient_dtype = DataType::kBf16;
  EXPECT_EQ(KeysWithoutEffect(request),
            (std::vector<std::string>{"training.gradient_dtype has no effect with framework fsdp2, "
                                      "because gradients have the data type of the parameters "
                                      "(fp32)"}));
  request.gradient_dtype = DataType::kFp32;
  EXPECT_TRUE(KeysWithoutEffect(request).empty());
  // Under fp8 compute, parameters are bf16.
  request.parameter_dtype.reset();
  request.precision = DataType::kFp8;
  request.gradient_dtype = DataType::kBf16;
  EXPECT_TRUE(KeysWithoutEffect(request).empty());
}

TEST(Check, LimitsThePassesThroughTensors) {
  Facts facts = EightDevices();
  facts.tensors = kMostTensorPasses / 4;
  Request request = Legal();
  request.gradient_accumulation = 4;
  EXPECT_TRUE(Check(request, facts).empty());
  request.gradient_accumulation = 5;
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].code, "plan.too-many-micro-batches");
}

// BLOOM's 2,048 micro-batches through 82 layers are allowed. 2^18 / 1024 = 256.
TEST(Check, LimitsThePassesThroughLayers) {
  Facts facts = EightDevices();
  facts.layers = 82;
  Request request = Legal();
  request.gradient_accumulation = 2048;
  EXPECT_TRUE(Check(request, facts).empty());
  facts.layers = 1024;
  request.gradient_accumulation = 257;
  const std::vector<Violation> violations = Check(request, facts);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].message,
            "257 micro-batches per step times 1024 layers exceed the maximum of 262144");
}

// From Megatron-LM's validate_args.
TEST(Legality, MegatronTakesOneConnectionBeforeBlackwell) {
  Request request = Legal();
  request.framework = Framework::kMegatron;
  request.zero_stage = 1;
  request.tensor = 2;
  request.data = *request.data / 2;
  request.cuda_device_max_connections = 8;
  Facts facts = EightDevices();
  for (const auto& [capability, refused] : {std::pair(0, 0u), {90, 1u}, {100, 0u}}) {
    facts.compute_capability = capability;
    std::size_t found = 0;
    for (const Violation& violation : Check(request, facts)) {
      found += violation.code == "plan.connections" ? 1 : 0;
    }
    EXPECT_EQ(found, refused) << capability;
  }
  EXPECT_TRUE(KeysWithoutEffect(request).empty());
  request.tensor = 1;
  EXPECT_EQ(KeysWithoutEffect(request).size(), 1u);
}

// Transformer Engine supports sinks in cuDNN's kernel, and in none of FlashAttention's.
TEST(Legality, MegatronRunsTheAttentionThatTransformerEngineHas) {
  using model::Attention;
  Request request = Legal();
  request.framework = Framework::kMegatron;
  request.zero_stage = 1;
  Facts facts = EightDevices();
  const auto refused = [&](Attention attention, bool sinks) {
    request.attention = attention;
    facts.attention_sinks = sinks;
    for (const Violation& violation : Check(request, facts)) {
      if (violation.code == "plan.attention") return true;
    }
    return false;
  };
  EXPECT_TRUE(refused(Attention::kFlex, false));
  for (const Attention attention : {Attention::kFlash, Attention::kFlash3}) {
    EXPECT_FALSE(refused(attention, false));
    EXPECT_TRUE(refused(attention, true));
  }
  for (const Attention attention : {Attention::kCudnn, Attention::kMath}) {
    EXPECT_FALSE(refused(attention, true));
  }
}

TEST(KeysWithoutEffect, NamesKeyFrameworkAndStage) {
  Request request = Legal();
  request.prefetch = 2;
  request.gradient_as_bucket_view = true;
  EXPECT_EQ(KeysWithoutEffect(request),
            (std::vector<std::string>{
                "data_parallel.prefetch has no effect with framework reference at zero_stage 0",
                "data_parallel.gradient_as_bucket_view has no effect with framework reference at "
                "zero_stage 0"}));
  request.zero_stage = 3;
  request.gradient_as_bucket_view.reset();
  EXPECT_TRUE(KeysWithoutEffect(request).empty());
  request.first_bucket_size = MiB(1);
  EXPECT_EQ(KeysWithoutEffect(request),
            (std::vector<std::string>{
                "data_parallel.first_bucket_size has no effect without bucket_size"}));
}

// FSDP's recipe, and what remains of it in other frameworks: ddp keeps FP32 parameters and reduces
// without a cast; deepspeed and megatron compute in the stored type.
TEST(TypesNotOfFramework, LeavesOutWhatAFrameworkCannotHave) {
  Request recipe;
  recipe.precision = DataType::kBf16;
  recipe.parameter_dtype = DataType::kFp32;
  recipe.reduce_dtype = DataType::kBf16;
  using Keys = std::vector<std::string>;
  const auto left_out = [&](Framework framework, int stage) {
    recipe.framework = framework;
    recipe.zero_stage = stage;
    return TypesNotOfFramework(recipe);
  };
  EXPECT_EQ(left_out(Framework::kFsdp2, 3), Keys());
  EXPECT_EQ(left_out(Framework::kReference, 3), Keys());
  EXPECT_EQ(left_out(Framework::kDdp, 0), Keys({"training.reduce_dtype"}));
  EXPECT_EQ(left_out(Framework::kDeepSpeed, 2), Keys({"training.parameter_dtype"}));
  EXPECT_EQ(left_out(Framework::kMegatron, 1),
            Keys({"training.parameter_dtype", "training.reduce_dtype"}));
  recipe.gradient_dtype = DataType::kFp32;
  EXPECT_EQ(left_out(Framework::kDeepSpeed, 1), Keys({"training.parameter_dtype"}));
  EXPECT_EQ(left_out(Framework::kDeepSpeed, 2),
            Keys({"training.parameter_dtype", "training.gradient_dtype"}));
}

}  // namespace
}  // namespace stepcast::plan
