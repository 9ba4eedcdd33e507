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
       }},
      {.key = "bucket_size",
       .type = OwnNotation<&Given::bucket_size>(),
       .uses = {Of(kReference), Of(kDdp), Of(kMegatron, "with overlap"),
                At(kNanotron, 0, 0, "`ddp_bucket_cap_mb`")},
       .elsewhere = "unit_blocks"},
      {.key = "first_bucket_size",
       .type = OwnNotation<&Given::first_bucket_size>(),
       .uses = {Of(kReference), Of(kDdp)}},
      {.key = "prefetch",
       .type = Count{&Given::prefetch, &DataParallel::prefetch, 0, kMostUnits},
       .uses = {At(kReference, 3, 3), Of(kFsdp2)}},
      {.key = "reshard_after_forward",
       .type = OwnNotation<&Given::reshard_after_forward>(),
       .uses = {At(kReference, 3, 3), Of(kFsdp2)}},
      {.key = "accumulate_unsharded",
       .type = Switch{&Given::accumulate_unsharded, &DataParallel::accumulate_unsharded},
       .uses = {At(kReference, 2, 3), Of(kFsdp1), Of(kFsdp2)}},
      {.key = "no_sync",
       .type = Switch{&Given::no_sync, &DataParallel::no_sync},
       .uses = {At(kReference, 0, 1), Of(kDdp), Of(kMegatron)},
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.training.gradient_accumulation == 1 ? "has no effect with one micro-batch"
                                                         : OnOneRank(plan);
       },
       .shown = [](const DataParallel& data_parallel) { return !data_parallel.no_sync; },
       .elsewhere = "accumulate_unsharded"},
      {.key = "shard_group_size",
       .type = Count{&Given::shard_group_size, &DataParallel::shard_group_size, 1, kMostRanks},
       .uses = {At(kReference, 1, 3), Of(kFsdp1), Of(kFsdp2),
                At(kMegatron, 1, 1,
                   "the number of ranks per instance of the distributed optimizer")}},
      {.key = "overlap_param_gather",
       .type = Switch{&Given::overlap_param_gather, &DataParallel::overlap_param_gather},
       .uses = {TakenByReference(), At(kMegatron, 1, 1)}},
      {.key = "align_grad_reduce",
       .type = Switch{&Given::align_grad_reduce, &DataParallel::align_grad_reduce},
       .uses = {Of(kMegatron, "in a pipeline, with overlap")},
       .without = "pipeline",
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.data_parallel.overlap ? "" : "has no effect without overlap";
       }},
      {.key = "align_param_gather",
       .type = Switch{&Given::align_param_gather, &DataParallel::align_param_gather},
       .uses = {At(kMegatron, 1, 1, "with virtual stages and `overlap_param_gather`")},
       .idle = WithoutVirtualStages},
      {.key = "overlap_param_gather_with_optimizer_step",
       .type = Switch{&Given::overlap_param_gather_with_optimizer_step,
                      &DataParallel::overlap_param_gather_with_optimizer_step},
       .uses = {At(kMegatron, 1, 1, "with virtual stages and `overlap_param_gather`")},
       .idle = WithoutVirtualStages},
      {.key = "gradient_accumulation_fusion",
       .type = Switch{&Given::gradient_accumulation_fusion,
                      &DataParallel::gradient_accumulation_fusion},
       .uses = {Of(kMegatron)},
       .shown =
           [](const DataParallel& data_parallel) {
             return !data_parallel.gradient_accumulation_fusion;
           }},
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
           [](const DataParallel& data_parallel) { return !data_parallel.copy_main_gradients; }},
      {.key = "overlap_p2p_comm",
       .type = Switch{&Given::overlap_p2p_comm, &DataParallel::overlap_p2p_comm},
       .uses = {Of(kMegatron, "in a pipeline with virtual stages")},
       .without = "pipeline",
       .shown = [](const DataParallel& data_parallel) { return data_parallel.overlap_p2p_comm; }},
      {.key = "batch_p2p_sync",
       .type = Switch{&Given::batch_p2p_sync, &DataParallel::batch_p2p_sync},
       .uses = {Of(kMegatron, "in a pipeline, without `overlap_p2p_comm`")},
       .without = "pipeline",
       .idle = [](const Plan& plan) -> std::string_view {
         return plan.data_parallel.overlap_p2p_comm ? "has no effect with overlap_p2p_comm" : "";
       },
       .shown = [](const DataParallel& data_parallel) { return !data_parallel.batch_p2p_sync; }},
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
           }},
      {.key = "optimizer_cpu_offload",
       .type = Switch{&Given::optimizer_cpu_offload, &DataParallel::optimizer_cpu_offload},
       .uses = {At(kMegatron, 1, 1, "with `--optimizer-offload-fraction 1`")}},
      {.key = "overlap_cpu_optimizer_d2h_h2d",
       .type = Switch{&Given::overlap_cpu_optimizer_d2h_h2d,
                      &DataParallel::overlap_cpu_optimizer_d2h_h2d},
       .uses = {At(kMegatron, 1, 1, "with `optimizer_cpu_offload`")}},
      {.key = "gradient_as_bucket_view",
       .type = Switch{&Given::gradient_as_bucket_view, &DataParallel::gradient_as_bucket_view},
       .uses = {TakenByReference(), Of(kDdp)}},
      {.key = "find_unused_parameters",
       .type = Switch{&Given::find_unused_parameters, &DataParallel::find_unused_parameters},
       .uses = {TakenByReference(), Of(kDdp)}},
      {.key = "comm_hook",
       .type = Words<&Given::comm_hook, &DataParallel::comm_hook, CommHook::kNone,
                     CommHook::kFp16Compress, CommHook::kBf16Compress, CommHook::kPowerSgd>(),
       .uses = {Of(kDdp)},
       .idle = OnOneRank},
      {.key = "powersgd",
       .type = OwnNotation<&Given::powersgd>(),
       .uses = {Of(kDdp, "with `comm_hook: powerSGD`")}},
      {.key = "backward_prefetch",
       .type = Words<&Given::backward_prefetch, &DataParallel::backward_prefetch,
                     BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone>(),
       .uses = {TakenByReference(), Of(kFsdp1)}},
      {.key = "forward_prefetch",
       .type = Switch{&Given::forward_prefetch, &DataParallel::forward_prefetch},
       .uses = {TakenByReference(), Of(kFsdp1)}},
      {.key = "limit_all_gathers",
       .type = Switch{&Given::limit_all_gathers, &DataParallel::limit_all_gathers},
       .uses = {TakenByReference(), Of(kFsdp1)}},
      {.key = "units",
       .type = Words<&Given::units, &DataParallel::units, WrappedUnits::kBlock,
                     WrappedUnits::kLayer, WrappedUnits::kModel>(),
       .uses = {TakenByReference(), Of(kFsdp1), Of(kFsdp2)}},
      {.key = "unit_blocks",
       .type = Count{&Given::unit_blocks, &DataParallel::unit_blocks, 1, kMostUnits},
       .uses = {TakenByReference(), Of(kFsdp1), Of(kFsdp2)}},
      {.key = "cpu_offload",
       .type = Switch{&Given::cpu_offload, &DataParallel::cpu_offload},
       .uses = {Of(kFsdp1), Of(kFsdp2)}},
      {.key = "use_orig_params",
       .type = Switch{&Given::use_orig_params, &DataParallel::use_orig_params},
       .uses = {TakenByReference(), Of(kFsdp1)}},
      {.key = "mixed_precision",
       .type = Words<&Given::mixed_precision, &DataParallel::mixed_precision, MixedPrecision::kFsdp,
                     MixedPrecision::kAutocast>(),
       .uses = {Of(kFsdp1)},
       .idle = [](const Plan& plan) -> std::string_view {
         return SizeOf(plan.training.parameter_dtype) < SizeOf(DataType::kFp32)
                    ? "has no effect with 16-bit parameters, which need no cast"
                    : "";
       }},
      {.key = "deepspeed", .type = OwnNotation<&Given::deepspeed>(), .uses = {Of(kDeepSpeed)}},
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
