#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/layer_work.h"
#include "src/model/recomputation.h"
#include "src/plan/deepspeed.h"

// How the model is trained: the scenario's `training`, `parallelism`, `data_parallel` and
// `software` sections, every default filled in. Keys and defaults: docs/formats.md.
namespace stepcast::plan {

enum class Optimizer : std::uint8_t { kAdamW, kSgd };
// How the framework runs the update (mechanics: one kernel over all tensors, or the multi-tensor
// chain that needs a temporary copy).
enum class OptimizerImplementation : std::uint8_t { kFused, kForeach };

enum class Framework : std::uint8_t {
  kReference,
  kDdp,
  kFsdp1,
  kFsdp2,
  kDeepSpeed,
  kMegatron,
  kInternEvo,
};

// `software: {torch: "2.6"}` as numbers that compare.
struct Version {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};

// The newest versions whose rules are known.
inline constexpr Version kNewestTorch{2, 14}, kNewestNccl{2, 30};

struct Software {
  Version torch = kNewestTorch;
  Version nccl = kNewestNccl;
};

struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch_size = 0;  // = micro_batch_size x gradient_accumulation x data
  DataType precision = DataType::kBf16;
  DataType parameter_dtype = DataType::kBf16;
  DataType gradient_dtype = DataType::kBf16;
  DataType reduce_dtype = DataType::kBf16;
  Optimizer optimizer = Optimizer::kAdamW;
  OptimizerImplementation optimizer_implementation = OptimizerImplementation::kFused;
  model::Checkpointing activation_checkpointing = model::Checkpointing::kNone;
  model::Attention attention = model::Attention::kFlash;
  bool checkpoint_early_stop = false;  // full recomputation: model::WorkOptions
  model::Loss loss = model::Loss::kEager;
  bool compile = false;  // memory-bound kernels are fused: model::WorkOptions
  // Sums over tokens for the gradients of norms' weights in two stages: model::WorkOptions.
  bool staged_norm_sums = false;
  bool step_barrier = false;  // measure one step between barriers instead of the steady interval
  // The host waits for the device after every forward, every backward and the update, as timers do
  // that synchronise.
  bool phase_timers = false;
  Dispatch dispatch;  // of the framework; zero: launches alone
};

struct Parallelism {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
};

// What happens to a unit's full parameters after its forward.
// true: freed, gathered again for backward. false: kept. k: re-sharded over groups of k ranks.
using ReshardAfterForward = std::variant<bool, std::int64_t>;

// When FSDP1 gathers the next unit of backward: before the present unit's gradients are computed,
// after that, or only when it is needed.
enum class BackwardPrefetch : std::uint8_t { kPre, kPost, kNone };

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
  bool gradient_as_bucket_view = false;                         // ddp
  bool find_unused_parameters = false;                          // ddp
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;  // fsdp1
  bool forward_prefetch = false;                                // fsdp1
  bool limit_all_gathers = true;                                // fsdp1
  bool use_orig_params = false;                                 // fsdp1
  DeepSpeed deepspeed;                                          // deepspeed
};

struct Plan {
  Training training;
  Parallelism parallelism;
  DataParallel data_parallel;
  Software software;
};

const char* Name(Optimizer optimizer);
const char* Name(OptimizerImplementation implementation);
const char* Name(Framework framework);
const char* Name(BackwardPrefetch prefetch);  // "pre"

// Whether the framework is one of PyTorch's FSDP: units, gradients kept in the parameters' type.
constexpr bool IsFsdp(Framework framework) {
  return framework == Framework::kFsdp1 || framework == Framework::kFsdp2;
}

// The type in which kernels read parameters and write gradients: 16 bits beside 8-bit products.
constexpr DataType ComputeType(DataType precision) {
  return precision == DataType::kFp8 ? DataType::kBf16 : precision;
}

// Bytes of persistent optimizer state per parameter: AdamW's two FP32 moments (SGD: one momentum),
// plus the FP32 master copy when the parameters are kept in 16 bits or fewer. AdamW on bf16
// parameters: k = 12.
std::int64_t OptimizerBytesPerParameter(const Training& training);

// One micro-batch of this training, as the model's work is asked for.
model::WorkOptions WorkOptionsOf(const Training& training);

// The type in which backward writes gradients: the parameters', or gradient_dtype where that is
// smaller.
DataType WrittenGradientType(const Training& training);

// True when gradients accumulate in a larger type than backward writes: the accumulators then stand
// beside the gradients ("FP32 gradient accumulation": 4 more bytes per parameter).
bool AccumulatesApart(const Training& training);

}  // namespace stepcast::plan
