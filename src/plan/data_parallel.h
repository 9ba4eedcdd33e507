#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "src/base/bytes.h"
#include "src/plan/deepspeed.h"
#include "src/plan/framework.h"

// The section `data_parallel` of a scenario: the settings as written, and the settings with
// defaults. settings.h lists the frameworks, values and documentation of each setting.
namespace stepcast::plan {

// PyTorch's communication hooks for DDP (torch/distributed/algorithms/ddp_comm_hooks @ v1.13.1). A
// hook replaces the all-reduce of a bucket.

// The effect of a communication hook on a bucket. The compress hooks cast the bucket to 16 bits and
// back (default_hooks.py). PowerSGD sends low-rank factors (powerSGD_hook.py).
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
inline constexpr const char* kCommHookNames[] = {"none", "fp16_compress", "bf16_compress",
                                                 "powerSGD"};
constexpr const char* Name(CommHook hook) { return kCommHookNames[static_cast<std::size_t>(hook)]; }

// Settings of the PowerSGD hook (Vogels et al. 2019, arXiv 1905.13727): the mapping
// `data_parallel.powersgd`, with the names and defaults of PowerSGDState.
struct PowerSgd {
  std::int64_t rank = 1;  // rank of the low-rank factors
  // The first step that uses PowerSGD; earlier steps use plain all-reduces. Forecasts are for a
  // later step.
  std::int64_t start_iteration = 1000;
  // A matrix is compressed only if size of matrix / size of factors exceeds this ratio.
  double min_compression_rate = 2;
  bool error_feedback = true;  // the compression error is added to the next step's gradients
  bool warm_start = true;      // a step starts from the previous step's factors
  friend bool operator==(const PowerSgd&, const PowerSgd&) = default;
};

// The PowerSGD settings that the scenario file contains.
struct PowerSgdRequest {
  std::optional<std::int64_t> rank, start_iteration;
  std::optional<double> min_compression_rate;
  std::optional<bool> error_feedback, warm_start;
};

PowerSgd Complete(const PowerSgdRequest& request);

// Returns whether a matrix of this shape is compressed.
bool Compresses(const PowerSgd& settings, std::int64_t rows, std::int64_t columns);

// The state of a unit's full parameters after its forward:
//   true: they are freed, and gathered again for backward.
//   false: they stay in memory.
//   k: they are resharded over groups of k ranks.
using ReshardAfterForward = std::variant<bool, std::int64_t>;

// When FSDP1 gathers the unit that backward needs next:
//   kPre: before the current unit's gradients are computed.
//   kPost: after they are computed.
//   kNone: only when the unit is needed.
enum class BackwardPrefetch : std::uint8_t { kPre, kPost, kNone };
inline constexpr const char* kBackwardPrefetchNames[] = {"pre", "post", "none"};
constexpr const char* Name(BackwardPrefetch prefetch) {
  return kBackwardPrefetchNames[static_cast<std::size_t>(prefetch)];
}

// How 32-bit parameters are cast to the compute type:
//   kFsdp: FSDP1's MixedPrecision casts shards before they are gathered.
//   kAutocast: torch.autocast casts gathered parameters, so gathers and reductions are in 32 bits.
enum class MixedPrecision : std::uint8_t { kFsdp, kAutocast };
inline constexpr const char* kMixedPrecisionNames[] = {"fsdp", "autocast"};
constexpr const char* Name(MixedPrecision mixed_precision) {
  return kMixedPrecisionNames[static_cast<std::size_t>(mixed_precision)];
}

// The units that FSDP wraps:
//   kBlock: every block is a unit; all other parameters form the root unit.
//   kLayer: embedding and head are also units, unless they share a tensor.
//   kModel: the model is one unit.
enum class WrappedUnits : std::uint8_t { kBlock, kLayer, kModel };
inline constexpr const char* kWrappedUnitsNames[] = {"block", "layer", "model"};
constexpr const char* Name(WrappedUnits units) {
  return kWrappedUnitsNames[static_cast<std::size_t>(units)];
}

// The value `bucket_size: unit`: one bucket per unit. Only for framework `reference` at stage 3.
struct PerUnit {};

// The settings of this section with defaults. The defaults in this struct apply to all frameworks.
struct DataParallel {
  int zero_stage = 0;
  Framework framework = Framework::kReference;
  bool overlap = true;
  // The size of a bucket, which has one collective. 0 B: one collective per tensor. Not set: the
  // framework has no buckets. Not set with `reference`: one bucket per unit at stage 3, and one
  // bucket for all gradients at other stages.
  std::optional<Bytes> bucket_size;
  std::optional<Bytes> first_bucket_size;
  std::int64_t prefetch = 1;
  ReshardAfterForward reshard_after_forward = true;
  bool accumulate_unsharded = false;
  // True: gradients are reduced once a step. False: in every micro-batch. Only with ddp and
  // megatron, and with reference at ZeRO stages 0 and 1.
  bool no_sync = true;
  // The number of ranks that share one copy of the states: the data-parallel degree, or fewer with
  // hybrid sharding.
  std::int64_t shard_group_size = 0;
  bool overlap_param_gather = false;  // megatron, stage 1: gathers overlap the next forward
  // Whether all pipeline stages start gradient reductions, and parameter gathers, at the same time.
  // Only with megatron and a pipeline.
  bool align_grad_reduce = true, align_param_gather = false;
  // Whether the parameters of the first virtual stage are gathered during the optimizer step of the
  // other virtual stages. Only with megatron and virtual stages.
  bool overlap_param_gather_with_optimizer_step = false;
  // True: GEMM kernels add weight gradients to the main gradients. False: autograd creates
  // gradients, and a hook adds them. Only with megatron.
  bool gradient_accumulation_fusion = true;
  // Whether 16-bit main gradients are copied to FP32 for the optimizer step. Only with megatron.
  bool copy_main_gradients = true;
  // Messages between pipeline stages. Only with megatron and a pipeline.
  //   overlap_p2p_comm: messages overlap passes; requires virtual stages. If false, stages exchange
  //     one message at a time.
  //   batch_p2p_sync: without overlap_p2p_comm, the host waits after each exchange.
  //   scatter_gather_tensors_in_pipeline: each tensor-parallel rank sends its part of the tensor.
  bool overlap_p2p_comm = false, batch_p2p_sync = true;
  bool scatter_gather_tensors_in_pipeline = false;
  bool gradient_as_bucket_view = false;        // ddp
  bool find_unused_parameters = false;         // ddp
  WrappedUnits units = WrappedUnits::kBlock;   // fsdp1, fsdp2
  std::int64_t unit_blocks = 1;                // number of blocks per unit
  bool cpu_offload = false;                    // fsdp1, fsdp2
  bool optimizer_cpu_offload = false;          // megatron, stage 1
  bool overlap_cpu_optimizer_d2h_h2d = false;  // megatron with optimizer_cpu_offload
  CommHook comm_hook = CommHook::kNone;        // ddp
  PowerSgd powersgd;                           // ddp with CommHook::kPowerSgd
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;  // fsdp1
  bool forward_prefetch = false;                                // fsdp1
  bool limit_all_gathers = true;                                // fsdp1
  bool use_orig_params = false;                                 // fsdp1
  MixedPrecision mixed_precision = MixedPrecision::kFsdp;       // fsdp1
  DeepSpeed deepspeed;                                          // deepspeed
  friend bool operator==(const DataParallel&, const DataParallel&) = default;
};

struct DataParallelRequest {
  std::optional<int> zero_stage;
  std::optional<Framework> framework;
  std::optional<bool> overlap;
  std::optional<std::variant<Bytes, PerUnit>> bucket_size;
  std::optional<Bytes> first_bucket_size;
  std::optional<std::int64_t> prefetch;
  std::optional<ReshardAfterForward> reshard_after_forward;
  std::optional<bool> accumulate_unsharded, no_sync;
  std::optional<std::int64_t> shard_group_size;
  std::optional<bool> overlap_param_gather, align_grad_reduce, align_param_gather;
  std::optional<bool> overlap_param_gather_with_optimizer_step;
  std::optional<bool> gradient_accumulation_fusion, copy_main_gradients;
  std::optional<bool> overlap_p2p_comm, batch_p2p_sync, scatter_gather_tensors_in_pipeline;
  std::optional<bool> gradient_as_bucket_view;
  std::optional<bool> find_unused_parameters;
  std::optional<WrappedUnits> units;
  std::optional<std::int64_t> unit_blocks;
  std::optional<bool> cpu_offload;
  std::optional<bool> optimizer_cpu_offload;
  std::optional<bool> overlap_cpu_optimizer_d2h_h2d;
  std::optional<CommHook> comm_hook;
  std::optional<PowerSgdRequest> powersgd;
  std::optional<BackwardPrefetch> backward_prefetch;
  std::optional<bool> forward_prefetch;
  std::optional<bool> limit_all_gathers;
  std::optional<bool> use_orig_params;
  std::optional<MixedPrecision> mixed_precision;
  std::optional<DeepSpeedRequest> deepspeed;
};

}  // namespace stepcast::plan
