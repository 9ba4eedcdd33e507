#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "src/base/bytes.h"
#include "src/plan/deepspeed.h"
#include "src/plan/framework.h"

// The section `data_parallel`: what was said, and what holds. Which framework has which setting,
// its values and its documentation are rows of settings.h.
namespace stepcast::plan {

// PyTorch's communication hooks for DDP (torch/distributed/algorithms/ddp_comm_hooks @ v1.13.1):
// what takes the place of a bucket's all-reduce.

// Casts to 16 bits and back (default_hooks.py), or low-rank factors (powerSGD_hook.py).
enum class CommHook : std::uint8_t { kNone, kFp16Compress, kBf16Compress, kPowerSgd };
inline constexpr const char* kCommHookNames[] = {"none", "fp16_compress", "bf16_compress",
                                                 "powerSGD"};
constexpr const char* Name(CommHook hook) { return kCommHookNames[static_cast<std::size_t>(hook)]; }

// The state of the PowerSGD hook (Vogels et al. 2019, arXiv 1905.13727): the mapping
// `data_parallel.powersgd`, by the names and with the defaults of PowerSGDState.
struct PowerSgd {
  std::int64_t rank = 1;  // of the factors
  // Plain all-reduces before that step; a forecast is of a step after it.
  std::int64_t start_iteration = 1000;
  // A matrix is compressed if its factors are more than so many times smaller.
  double min_compression_rate = 2;
  bool error_feedback = true;  // what compression loses is added to the next step's gradients
  bool warm_start = true;      // a step begins with the last one's factors
  friend bool operator==(const PowerSgd&, const PowerSgd&) = default;
};

// What was said of it.
struct PowerSgdRequest {
  std::optional<std::int64_t> rank, start_iteration;
  std::optional<double> min_compression_rate;
  std::optional<bool> error_feedback, warm_start;
};

PowerSgd Complete(const PowerSgdRequest& request);

// Whether a matrix of such a shape is compressed.
bool Compresses(const PowerSgd& settings, std::int64_t rows, std::int64_t columns);

// What happens to a unit's full parameters after its forward.
// true: freed, gathered again for backward. false: kept. k: re-sharded over groups of k ranks.
using ReshardAfterForward = std::variant<bool, std::int64_t>;

// When FSDP1 gathers the next unit of backward: before the present unit's gradients are computed,
// after that, or only when it is needed.
enum class BackwardPrefetch : std::uint8_t { kPre, kPost, kNone };
inline constexpr const char* kBackwardPrefetchNames[] = {"pre", "post", "none"};
constexpr const char* Name(BackwardPrefetch prefetch) {
  return kBackwardPrefetchNames[static_cast<std::size_t>(prefetch)];
}

// Who casts parameters of 32 bits to the type that kernels compute in: FSDP1, whose shards are cast
// before they are gathered (its MixedPrecision), or torch.autocast beside it: then parameters are
// gathered and gradients reduced in 32 bits.
enum class MixedPrecision : std::uint8_t { kFsdp, kAutocast };
inline constexpr const char* kMixedPrecisionNames[] = {"fsdp", "autocast"};
constexpr const char* Name(MixedPrecision mixed_precision) {
  return kMixedPrecisionNames[static_cast<std::size_t>(mixed_precision)];
}

// What FSDP wraps: blocks, and the rest as the root; the embedding and the head as well, each by
// itself, unless they share a tensor; or the model alone.
enum class WrappedUnits : std::uint8_t { kBlock, kLayer, kModel };
inline constexpr const char* kWrappedUnitsNames[] = {"block", "layer", "model"};
constexpr const char* Name(WrappedUnits units) {
  return kWrappedUnitsNames[static_cast<std::size_t>(units)];
}

// `bucket_size: unit`: the gradients of each unit together (reference, stage 3).
struct PerUnit {};

// Defaults that hold whatever the framework are those written here.
struct DataParallel {
  int zero_stage = 0;
  Framework framework = Framework::kReference;
  bool overlap = true;
  // One collective per bucket. 0 B: one per tensor. Not set: the framework has no buckets, or (only
  // for `reference`) one bucket per unit at stage 3 and one for everything without overlap.
  std::optional<Bytes> bucket_size;
  std::optional<Bytes> first_bucket_size;
  std::int64_t prefetch = 1;
  ReshardAfterForward reshard_after_forward = true;
  bool accumulate_unsharded = false;
  std::int64_t shard_group_size = 0;  // ranks that share one copy of the states; = data: no hybrid
  bool overlap_param_gather = false;  // megatron, stage 1: gather during the next forward
  // megatron in a pipeline: all stages send off reductions, or gathers, at the same moment
  bool align_grad_reduce = true, align_param_gather = false;
  // megatron with virtual stages: the first one's parameters are gathered beside the other's update
  bool overlap_param_gather_with_optimizer_step = false;
  // megatron: gradients of products go into the main gradients as they are made; else autograd
  // makes them and a hook adds them
  bool gradient_accumulation_fusion = true;
  bool copy_main_gradients = true;  // megatron: those of 16 bits, into FP32 ones for the update
  // megatron in a pipeline: messages run beside passes (with virtual stages), or else one exchange
  // at a time, after which the host waits; and each rank of a tensor-parallel group carries its
  // part
  bool overlap_p2p_comm = false, batch_p2p_sync = true;
  bool scatter_gather_tensors_in_pipeline = false;
  bool gradient_as_bucket_view = false;                         // ddp
  bool find_unused_parameters = false;                          // ddp
  WrappedUnits units = WrappedUnits::kBlock;                    // fsdp1, fsdp2
  std::int64_t unit_blocks = 1;                                 // blocks of a unit
  bool cpu_offload = false;                                     // fsdp1, fsdp2
  bool optimizer_cpu_offload = false;                           // megatron, stage 1
  bool overlap_cpu_optimizer_d2h_h2d = false;                   // megatron with that
  CommHook comm_hook = CommHook::kNone;                         // ddp
  PowerSgd powersgd;                                            // ddp with that hook
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
  std::optional<bool> accumulate_unsharded;
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
