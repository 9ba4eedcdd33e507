#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

TEST(AxisRules, NameEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) {
         r.tensor = 2;
         r.framework = Framework::kDdp;
         r.zero_stage = 0;
       },
       "parallelism.tensor", "plan.axis-not-of-framework",
       "tensor parallelism is not supported with framework ddp, but tensor is 2"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.zero_stage = 1;
         r.tensor_overlap = model::TensorOverlap::kUserBuffers;
       },
       "training.tensor_overlap", "plan.tensor-overlap",
       "user_buffers overlaps collectives of sequence parallelism, but this plan has no sequence "
       "parallelism"},
      {[](Request& r) {
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.tensor = 2;
         r.sequence_parallel = true;
         r.tensor_overlap = model::TensorOverlap::kAsync;
       },
       "training.tensor_overlap", "plan.tensor-overlap",
       "tensor_overlap: async is a pass of torch.compile, but compile is false"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.zero_stage = 1;
         r.tensor = 2;
         r.sequence_parallel = true;
         r.compile = true;
         r.tensor_overlap = model::TensorOverlap::kAsync;
       },
       "training.tensor_overlap", "plan.tensor-overlap",
       "tensor_overlap: async needs PyTorch's compiler, but framework is megatron"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.zero_stage = 1;
         r.tensor = 2;
         r.sequence_parallel = true;
         r.sequence_length = 1020;
         r.micro_batch_size = 1;
         r.tensor_overlap = model::TensorOverlap::kUserBuffers;
       },
       "training.tensor_overlap", "plan.tensor-overlap",
       "with user_buffers, 2 ranks x 4 parts must be a divisor of the 1020 tokens of a "
       "micro-batch"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "gpipe";
         r.virtual_stages = 2;
       },
       "parallelism.virtual_stages", "plan.schedule",
       "the schedule gpipe has one chunk of layers per stage, but virtual_stages is 2"},
      {[](Request& r) {
         r.pipeline = 8;
         r.virtual_stages = 2;
       },
       "training.gradient_accumulation", "plan.schedule",
       "interleaved_1f1b: the number of micro-batches must be a multiple of 8 in this schedule, "
       "but is 4"},
      {[](Request& r) {
         r.pipeline = 2;
         r.virtual_stages = 2;
         r.microbatch_group_size_per_vp_stage = 3;
       },
       "training.gradient_accumulation", "plan.schedule",
       "interleaved_1f1b: the schedule runs micro-batches in groups of 3, but with 4 "
       "micro-batches, "
       "the last group has only 1"},
      {[](Request& r) {
         r.pipeline = 4;
         r.virtual_stages = 2;
         r.microbatch_group_size_per_vp_stage = 2;
       },
       "parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
       "microbatch_group_size_per_vp_stage must be at least 4, one micro-batch per pipeline stage, "
       "but is 2"},
      {[](Request& r) {
         r.pipeline = 2;
         r.microbatch_group_size_per_vp_stage = 4;
       },
       "parallelism.microbatch_group_size_per_vp_stage", "plan.schedule",
       "the schedule 1f1b has no groups of micro-batches: microbatch_group_size_per_vp_stage is 4"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "zb_v";
         r.virtual_stages = 3;
       },
       "parallelism.virtual_stages", "plan.schedule",
       "the schedule zb_v has 2 chunks of layers per stage, but virtual_stages is 3"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "dualpipe";
       },
       "parallelism.schedule", "plan.schedule",
       "the schedule dualpipe trains two copies of the model; stepcast can draw this schedule but "
       "cannot simulate it"},
      {[](Request& r) {
         r.pipeline = 4;
         r.schedule = "dualpipe_v";
       },
       "training.gradient_accumulation", "plan.schedule",
       "dualpipe_v: the schedule needs at least 8 micro-batches if there are 4 stages, but the "
       "number of micro-batches is 4"},
      {[](Request& r) {
         r.pipeline = 8;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
       },
       "training.gradient_accumulation", "plan.schedule",
       "PyTorch's 1f1b needs at least 8 micro-batches, one per stage, but a step has only 4"},
      {[](Request& r) {
         r.pipeline = 2;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.schedule = "zb_h1";
       },
       "parallelism.schedule", "plan.schedule-not-of-framework",
       "torch.distributed.pipelining splits backward only in zb_v and dualpipe_v, but schedule is "
       "zb_h1"},
      {[](Request& r) {
         r.pipeline = 2;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.accumulate_unsharded = false;
       },
       "data_parallel.accumulate_unsharded", "plan.axis-not-of-framework",
       "torch.distributed.pipelining reduces gradients only after the last micro-batch, but "
       "accumulate_unsharded is false"},
      {[](Request& r) {
         r.pipeline = 2;
         r.virtual_stages = 2;
         r.zero_stage = 3;
       },
       "parallelism.virtual_stages", "plan.axis-not-supported-with",
       "virtual stages are supported only at zero_stage 0 to 2, but zero_stage is 3"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "zb_h1";
         r.zero_stage = 2;
       },
       "parallelism.schedule", "plan.axis-not-supported-with",
       "schedules that split backward are supported only at zero_stage 0 and 1, but zero_stage is "
       "2"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "zb_h1";
         r.activation_checkpointing = model::Checkpointing::kFull;
       },
       "training.activation_checkpointing", "plan.axis-not-supported-with",
       "the schedule zb_h1 splits backward into input and weight gradients, but recomputation "
       "cannot be split: activation_checkpointing is full"},
      {[](Request& r) {
         r.pipeline = 2;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.schedule = "zb_h2";
       },
       "parallelism.schedule", "plan.schedule-not-of-framework",
       "torch.distributed.pipelining splits backward only in zb_v and dualpipe_v, but schedule is "
       "zb_h2"},
      {[](Request& r) {
         r.pipeline = 4;
         r.stage_layers = {4, 0, 4, 4};
       },
       "parallelism.stage_layers", "plan.stage-layers",
       "stage_layers[1] is 0, so the stage would have no work"},
      {[](Request& r) {
         r.pipeline = 4;
         r.stage_layers = {4, 4, 4, 4};
         r.account_for_loss_in_pipeline_split = true;
       },
       "parallelism.account_for_loss_in_pipeline_split", "plan.stage-layers",
       "stage_layers already sets the number of blocks of each stage, but "
       "account_for_loss_in_pipeline_split is true"},
      {[](Request& r) {
         r.pipeline = 2;
         r.schedule = "zb_h1";
         r.framework = Framework::kMegatron;
       },
       "parallelism.schedule", "plan.schedule-not-of-framework",
       "without virtual stages, megatron supports only 1f1b, but schedule is zb_h1"},
      {[](Request& r) { r.data = 7; }, "parallelism.data", "plan.device-count",
       "data 7 x tensor 1 x pipeline 1 x context 1 = 7 ranks, but the cluster has 8 "
       "devices"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.pipeline = 2;
         r.overlap_p2p_comm = true;
       },
       "data_parallel.overlap_p2p_comm", "plan.overlap",
       "megatron overlaps messages only with virtual stages, but virtual_stages is 1"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.pipeline = 2;
         r.virtual_stages = 2;
         r.overlap_p2p_comm = false;
       },
       "data_parallel.overlap_p2p_comm", "plan.overlap",
       "with two pipeline stages and virtual stages, megatron must overlap messages, but "
       "overlap_p2p_comm is false"},
      {[](Request& r) {
         r.framework = Framework::kMegatron;
         r.pipeline = 2;
         r.virtual_stages = 2;
         r.scatter_gather_tensors_in_pipeline = true;
       },
       "data_parallel.scatter_gather_tensors_in_pipeline", "plan.overlap",
       "versions of megatron that overlap messages send complete tensors, but "
       "scatter_gather_tensors_in_pipeline is true"},
      {[](Request& r) {
         r.framework = Framework::kDeepSpeed;
         r.pipeline = 2;
         r.zero_stage = 2;
       },
       "data_parallel.zero_stage", "plan.axis-not-of-framework",
       "DeepSpeed's pipelines do not support ZeRO-2 and ZeRO-3, but zero_stage is 2"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.pipeline = 2;
         r.virtual_stages = 2;
       },
       "parallelism.schedule", "plan.schedule-not-of-framework",
       "nanotron runs only 1f1b and gpipe (afab), but schedule is interleaved_1f1b"},
      {[](Request& r) {
         r.framework = Framework::kNanotron;
         r.pipeline = 8;
       },
       "training.gradient_accumulation", "plan.schedule",
       "nanotron's 1f1b needs at least 7 micro-batches (the number of stages minus 1), but a step "
       "has only 4"},
      {[](Request& r) {
         r.framework = Framework::kDeepSpeed;
         r.pipeline = 2;
         r.virtual_stages = 2;
       },
       "parallelism.schedule", "plan.schedule-not-of-framework",
       "DeepSpeed's pipelines run only 1f1b, but schedule is interleaved_1f1b"},
      {[](Request& r) {
         r.framework = Framework::kDeepSpeed;
         r.zero_stage = 1;
         r.pipeline = 2;
         r.overlap = true;
       },
       "data_parallel.overlap", "plan.overlap",
       "DeepSpeed's pipelines reduce gradients only after the last backward, but overlap is true"},
      {[](Request& r) {
         r.framework = Framework::kDeepSpeed;
         r.tensor = 2;
         r.sequence_parallel = true;
       },
       "parallelism.sequence_parallel", "plan.axis-not-of-framework",
       "Megatron-DeepSpeed has no sequence parallelism over tensor-parallel ranks, but "
       "sequence_parallel is true"},
  };
  ExpectEach(cases);
}

}  // namespace
}  // namespace stepcast::plan
