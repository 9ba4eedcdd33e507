#include <cstdint>
#include <vector>

#include "src/base/check.h"
#include "src/plan/plan.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

using Given = DataParallelRequest;
using Switch = SwitchSetting<Given, DataParallel>;
using Count = CountSetting<Given, DataParallel>;

constexpr std::int64_t kMostUnits = 1'000'000;
constexpr std::int64_t kMostRanks = 10'000'000;

// Reason why messages and gathers of virtual stages have no effect; empty if they have.
std::string_view WithoutVirtualStages(const Plan& plan) {
  if (plan.parallelism.virtual_stages <= 1)
    return "has no effect without parallelism.virtual_stages";
  return plan.data_parallel.overlap_param_gather ? ""
                                                 : "has no effect without overlap_param_gather";
}

std::string_view OnOneRank(const Plan& plan) {
  return GradientRanks(plan) == 1 ? "has no effect with one data-parallel rank, because this "
                                    "rank has no gradients to send"
                                  : "";
}

std::vector<DataParallelSetting> Rows() {
  using enum Framework;
  return {
      {.key = "overlap",
       .type = Switch{&Given::overlap, &DataParallel::overlap},
       .uses = {Of(kReference), Of(kMegatron), At(kDeepSpeed, 1, 3)},
       .idle = [](const Plan& plan) -> std::string_view {
         return TraitsOf(plan.data_parallel.framework).textbook ? OnOneRank(plan) : "";
       },
       .values =
           "`true`: gradients are reduced during backward. `false`: gradients are reduced after "
           "the end of backward (megatron: `overlap_grad_reduce`, deepspeed: `overlap_comm`)",
       .default_value = "deepspeed at stages 1 and 2: `false`. Otherwise: `true`"},
      {.key = "bucket_size",
       .type = OwnNotation<&Given::bucket_size>(),
       .uses = {Of(kReference), Of(kDdp), Of(kMegatron, "with overlap"),
                At(kNanotron, 0, 0, "`ddp_bucket_cap_mb`")},
       .elsewhere = "unit_blocks",
       .values = "the size of a bucket in bytes. `0 B`: one collective per tensor. `unit`: one "
                 "collective per unit (reference, stage 3)",
       .default_value = "megatron: the gradients of max(40 million, 1 million x data-parallel "
                        "ranks) parameters. reference at stage 3: `unit`. reference at stages 0 "
                        "to 2 without overlap: one bucket, unless every micro-batch reduces its "
                        "gradients. Otherwise: 25 MiB"},
      {.key = "first_bucket_size",
       .type = OwnNotation<&Given::first_bucket_size>(),
       .uses = {Of(kReference), Of(kDdp)},
       .values = "the maximum size, in bytes, of the first bucket that backward fills",
       .default_value = "reference: `bucket_size`. ddp from torch 2.0 on: `bucket_size` if the "
                        "scenario sets `bucket_size`. Otherwise: 1 MiB"},
      {.key = "prefetch",
       .type = Count{&Given::prefetch, &DataParallel::prefetch, 0, kMostUnits},
       .uses = {At(kReference, 3, 3), Of(kFsdp2)},
       .values = "the number of units that are gathered ahead of the current unit",
       .default_value = "`1`"},
      {.key = "reshard_after_forward",
       .type = OwnNotation<&Given::reshard_after_forward>(),
       .uses = {At(kReference, 3, 3), Of(kFsdp2)},
       .values =
           "`true`: parameters are freed after forward and gathered again for backward. `false`: "
           "parameters stay gathered until backward. An integer k: after forward, parameters are "
           "sharded over groups of k neighboring ranks. k requires `tensor: 1`, and must divide n "
           "= `shard_group_size` x `context`. `1` has the same effect as `false`, and n has the "
           "same effect as `true`",
       .default_value = "fsdp2 at stage 2, and fsdp2 in a pipeline: `false`. Otherwise: `true`"},
      {.key = "accumulate_unsharded",
       .type = Switch{&Given::accumulate_unsharded, &DataParallel::accumulate_unsharded},
       .uses = {At(kReference, 2, 3), Of(kFsdp1), Of(kFsdp2)},
       .values = "`true`: each rank adds up full gradients over the micro-batches, and reduces the "
                 "sums once per step",
       .default_value = "fsdp2 in a pipeline: `true`. Otherwise: `false`"},
      {.key = "no_sync",
       .type = Switch{&Given::no_sync, &DataParallel::no_sync},
       .uses = {At(kReference, 0, 1), Of(kDdp), Of(kMegatron)},
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.training.gradient_accumulation == 1 ? "has no effect with one micro-batch"
                                                         : OnOneRank(plan);
       },
       .shown = [](const DataParallel& data_parallel) { return !data_parallel.no_sync; },
       .elsewhere = "accumulate_unsharded",
       .values = "`true`: each rank adds up the gradients of its micro-batches, and reduces the "
                 "sum once per step. `false`: every micro-batch reduces its gradients, as "
                 "PyTorch's DistributedDataParallel does without `no_sync()`. `false` is not "
                 "allowed in a pipeline",
       .default_value = "`true`"},
      {.key = "shard_group_size",
       .type = Count{&Given::shard_group_size, &DataParallel::shard_group_size, 1, kMostRanks},
       .uses = {At(kReference, 1, 3), Of(kFsdp1), Of(kFsdp2),
                At(kMegatron, 1, 1,
                   "the number of ranks of one instance of the distributed "
                   "optimizer")},
       .values =
           "the number of ranks that share one copy of the model states; a divisor of `data`. A "
           "value smaller than `data` means hybrid sharding",
       .default_value = "`data`"},
      {.key = "overlap_param_gather",
       .type = Switch{&Given::overlap_param_gather, &DataParallel::overlap_param_gather},
       .uses = {TakenByReference(), At(kMegatron, 1, 1)},
       .values = "`true`: the distributed optimizer gathers parameters bucket by bucket during the "
                 "next forward",
       .default_value = "`overlap`"},
      {.key = "align_grad_reduce",
       .type = Switch{&Given::align_grad_reduce, &DataParallel::align_grad_reduce},
       .uses = {Of(kMegatron, "in a pipeline, with overlap")},
       .without = "pipeline",
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.data_parallel.overlap ? "" : "has no effect without overlap";
       },
       .values =
           "`true`: when the last pipeline stage has computed the gradients of a virtual stage, "
           "all pipeline stages reduce the gradients of this virtual stage. Without virtual "
           "stages, only the first stage reduces gradients bucket by bucket. `false`: each stage "
           "reduces gradients as soon as they are computed",
       .default_value = "`true`"},
      {.key = "align_param_gather",
       .type = Switch{&Given::align_param_gather, &DataParallel::align_param_gather},
       .uses = {At(kMegatron, 1, 1, "with virtual stages and `overlap_param_gather`")},
       .idle = WithoutVirtualStages,
       .values = "`true`: all stages gather the parameters of a virtual stage at the same time, "
                 "when the last pipeline stage begins the previous virtual stage. `false`: each "
                 "stage gathers parameters when its own forward begins",
       .default_value = "`true`"},
      {.key = "overlap_param_gather_with_optimizer_step",
       .type = Switch{&Given::overlap_param_gather_with_optimizer_step,
                      &DataParallel::overlap_param_gather_with_optimizer_step},
       .uses = {At(kMegatron, 1, 1, "with virtual stages and `overlap_param_gather`")},
       .idle = WithoutVirtualStages,
       .values = "`true`: the first virtual stage is updated separately, and its parameters are "
                 "gathered while the other virtual stages are updated. The gradients of the "
                 "first virtual stage are one bucket",
       .default_value = "`false`"},
      {.key = "gradient_accumulation_fusion",
       .type = Switch{&Given::gradient_accumulation_fusion,
                      &DataParallel::gradient_accumulation_fusion},
       .uses = {Of(kMegatron)},
       .shown =
           [](const DataParallel& data_parallel) {
             return !data_parallel.gradient_accumulation_fusion;
           },
       .values = "`true`: the GEMMs of weight gradients add their results directly to the main "
                 "gradients. `false`: autograd creates gradients, and hooks add these gradients to "
                 "the main gradients, as in Megatron-LM before 3.0 (2022)",
       .default_value = "`true`"},
      {.key = "copy_main_gradients",
       .type = Switch{&Given::copy_main_gradients, &DataParallel::copy_main_gradients},
       .uses = {Of(kMegatron)},
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.training.gradient_dtype == DataType::kFp32
                    ? "has no effect with training.gradient_dtype fp32, because the optimizer "
                      "reads FP32 "
                      "gradients without a copy"
                    : "";
       },
       .shown =
           [](const DataParallel& data_parallel) { return !data_parallel.copy_main_gradients; },
       .values =
           "`true`: 16-bit main gradients are copied to FP32 for the fused optimizer. `false`: the "
           "optimizer reads 16-bit gradients directly, like the precision-aware optimizer of "
           "Megatron-LM and the distributed optimizers of Apex",
       .default_value =
           "`false` if `optimizer_state_dtype` or `master_weights` require the precision-aware "
           "optimizer; otherwise `true`"},
      {.key = "overlap_p2p_comm",
       .type = Switch{&Given::overlap_p2p_comm, &DataParallel::overlap_p2p_comm},
       .uses = {Of(kMegatron, "in a pipeline with virtual stages")},
       .without = "pipeline",
       .shown = [](const DataParallel& data_parallel) { return data_parallel.overlap_p2p_comm; },
       .values =
           "`true`: the messages of a pass overlap with the next pass. `false`: the compute "
           "stream waits for each batch of sends and receives. Without virtual stages, and in "
           "releases of Megatron-LM before 2023, the value is always `false`",
       .default_value = "`true` with virtual stages"},
      {.key = "batch_p2p_sync",
       .type = Switch{&Given::batch_p2p_sync, &DataParallel::batch_p2p_sync},
       .uses = {Of(kMegatron, "in a pipeline, without `overlap_p2p_comm`")},
       .without = "pipeline",
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.data_parallel.overlap_p2p_comm ? "has no effect with overlap_p2p_comm" : "";
       },
       .shown = [](const DataParallel& data_parallel) { return !data_parallel.batch_p2p_sync; },
       .values = "`true`: after each batch of sends and receives, the host waits for the device",
       .default_value = "`true`"},
      {.key = "scatter_gather_tensors_in_pipeline",
       .type = Switch{&Given::scatter_gather_tensors_in_pipeline,
                      &DataParallel::scatter_gather_tensors_in_pipeline},
       .uses = {Of(kMegatron,
                   "in a pipeline with tensor parallelism, but without sequence parallelism and "
                   "without `overlap_p2p_comm`")},
       .without = "pipeline",
       .shown =
           [](const DataParallel& data_parallel) {
             return data_parallel.scatter_gather_tensors_in_pipeline;
           },
       .values = "`true`: each of t tensor-parallel ranks sends 1/t of a message between stages, "
                 "and the receivers gather the complete message, as in Megatron-LM before 2023",
       .default_value = "`false`"},
      {.key = "optimizer_cpu_offload",
       .type = Switch{&Given::optimizer_cpu_offload, &DataParallel::optimizer_cpu_offload},
       .uses = {At(kMegatron, 1, 1, "with `--optimizer-offload-fraction 1`")},
       .values = "`true`: FP32 parameters and moments are in host memory, and the CPUs update "
                 "them. `true` requires `node.host` in the topology",
       .default_value = "`false`"},
      {.key = "overlap_cpu_optimizer_d2h_h2d",
       .type = Switch{&Given::overlap_cpu_optimizer_d2h_h2d,
                      &DataParallel::overlap_cpu_optimizer_d2h_h2d},
       .uses = {At(kMegatron, 1, 1, "with `optimizer_cpu_offload`")},
       .values = "`true`: while the CPUs update a tensor, separate streams copy gradients of other "
                 "tensors to the host and updated values to the device",
       .default_value = "`false`"},
      {.key = "gradient_as_bucket_view",
       .type = Switch{&Given::gradient_as_bucket_view, &DataParallel::gradient_as_bucket_view},
       .uses = {TakenByReference(), Of(kDdp)},
       .values = "`true`: gradients are views of the buckets, so reduced gradients are not copied "
                 "out of the buckets",
       .default_value = "`false`"},
      {.key = "find_unused_parameters",
       .type = Switch{&Given::find_unused_parameters, &DataParallel::find_unused_parameters},
       .uses = {TakenByReference(), Of(kDdp)},
       .values = "`true`: buckets follow the order in which the model defines its parameters, and "
                 "an additional all-reduce finds the parameters that were used",
       .default_value = "`false`"},
      {.key = "comm_hook",
       .type = Words<&Given::comm_hook, &DataParallel::comm_hook, CommHook::kNone,
                     CommHook::kFp16Compress, CommHook::kBf16Compress, CommHook::kPowerSgd>(),
       .uses = {Of(kDdp)},
       .idle = OnOneRank,
       .values =
           "the hook that replaces the all-reduce of a bucket: `none`, `fp16_compress`, "
           "`bf16_compress` or `powerSGD`. The `compress` hooks send gradients in 16 bits and "
           "need `parameter_dtype: fp32`. `powerSGD` sends low-rank factors",
       .default_value = "`none`"},
      {.key = "powersgd",
       .type = OwnNotation<&Given::powersgd>(),
       .uses = {Of(kDdp, "with `comm_hook: powerSGD`")},
       .values = "a mapping with the keys of [powersgd](#data_parallelpowersgd)",
       .default_value = "the default of each key"},
      {.key = "backward_prefetch",
       .type = Words<&Given::backward_prefetch, &DataParallel::backward_prefetch,
                     BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone>(),
       .uses = {TakenByReference(), Of(kFsdp1)},
       .values = "the time at which backward gathers the next unit. `pre`: before the gradients of "
                 "the current unit are computed. `post`: after the gradients of the current unit "
                 "are computed. `none`: when backward needs the next unit",
       .default_value = "`pre`; before torch 2.0 `none`"},
      {.key = "forward_prefetch",
       .type = Switch{&Given::forward_prefetch, &DataParallel::forward_prefetch},
       .uses = {TakenByReference(), Of(kFsdp1)},
       .values = "`true`: in the forward pass, the gather of the next unit overlaps with the "
                 "current unit",
       .default_value = "`false`"},
      {.key = "limit_all_gathers",
       .type = Switch{&Given::limit_all_gathers, &DataParallel::limit_all_gathers},
       .uses = {TakenByReference(), Of(kFsdp1)},
       .values = "`true`: before each gather, the host waits until the device has at most about "
                 "two gathered units",
       .default_value = "`true`; before torch 2.1 `false`"},
      {.key = "units",
       .type = Words<&Given::units, &DataParallel::units, WrappedUnits::kBlock,
                     WrappedUnits::kLayer, WrappedUnits::kModel>(),
       .uses = {TakenByReference(), Of(kFsdp1), Of(kFsdp2)},
       .values = "the modules that FSDP wraps as units. `block`: each block is a unit, and the "
                 "rest of the model is the root unit. `layer`: the embedding and the head are "
                 "also units, unless the head uses the embedding's tensor. `model`: the complete "
                 "model is one unit",
       .default_value = "`block`"},
      {.key = "unit_blocks",
       .type = Count{&Given::unit_blocks, &DataParallel::unit_blocks, 1, kMostUnits},
       .uses = {TakenByReference(), Of(kFsdp1), Of(kFsdp2)},
       .values = "the number of consecutive blocks in a unit: `fully_shard([block, block])`, or a "
                 "wrapped module of several blocks",
       .default_value = "`1`"},
      {.key = "cpu_offload",
       .type = Switch{&Given::cpu_offload, &DataParallel::cpu_offload},
       .uses = {Of(kFsdp1), Of(kFsdp2)},
       .values = "`true`: sharded parameters, gradients and optimizer states are in host memory, "
                 "and the CPUs update the parameters (`CPUOffload(offload_params=True)`, "
                 "`CPUOffloadPolicy()`). `true` requires `node.host` in the topology",
       .default_value = "`false`"},
      {.key = "use_orig_params",
       .type = Switch{&Given::use_orig_params, &DataParallel::use_orig_params},
       .uses = {TakenByReference(), Of(kFsdp1)},
       .values = "`true`: since torch 2.1, tensors in a flat parameter begin at multiples of 16 B, "
                 "so gradients need no padding",
       .default_value = "`false`"},
      {.key = "mixed_precision",
       .type = Words<&Given::mixed_precision, &DataParallel::mixed_precision, MixedPrecision::kFsdp,
                     MixedPrecision::kAutocast>(),
       .uses = {Of(kFsdp1)},
       .idle = [](const Plan& plan) -> std::string_view {
         return SizeOf(plan.training.parameter_dtype) < SizeOf(DataType::kFp32)
                    ? "has no effect with 16-bit parameters, which need no cast"
                    : "";
       },
       .values = "the mechanism that casts 32-bit parameters. `fsdp`: FSDP's `MixedPrecision`, "
                 "which casts shards before they are gathered (accelerate and Hugging Face's "
                 "Trainer use `MixedPrecision`). `autocast`: `torch.autocast` without "
                 "`MixedPrecision`. With `autocast`, parameters are gathered in FP32, and "
                 "gradients are reduced in FP32. Residuals and norms are FP32, and a 16-bit copy "
                 "of every matrix stays in memory from forward to backward",
       .default_value = "`fsdp`"},
      {.key = "deepspeed",
       .type = OwnNotation<&Given::deepspeed>(),
       .uses = {Of(kDeepSpeed)},
       .values = "a mapping with the keys of [deepspeed](#data_paralleldeepspeed)",
       .default_value = "the default of each key"},
  };
}

}  // namespace

std::span<const DataParallelSetting> DataParallelSettings() {
  static const std::vector<DataParallelSetting> rows = Rows();
  return rows;
}

namespace {

const SettingUses& UsesOf(std::string_view key) {
  const DataParallelSetting* setting = FindSetting(DataParallelSettings(), key);
  STEPCAST_CHECK(setting != nullptr, "the setting must be in the table of settings");
  return setting->uses;
}

}  // namespace

bool Has(Framework framework, std::string_view key) { return UsesOf(key).Has(framework); }

bool HasEffect(const DataParallel& data_parallel, std::string_view key) {
  return UsesOf(key).HasEffect(data_parallel.framework, data_parallel.zero_stage);
}

}  // namespace stepcast::plan
