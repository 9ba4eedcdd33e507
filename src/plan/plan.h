#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/model/layer_work.h"
#include "src/model/recomputation.h"
#include "src/plan/data_parallel.h"
#include "src/plan/host_work.h"

namespace stepcast::parallel {
struct PipelineSchedule;
}  // namespace stepcast::parallel

// How the model is trained: the scenario's `training`, `parallelism`, `data_parallel` and
// `software` sections, every default filled in. Keys and defaults: docs/formats.md.
namespace stepcast::plan {

enum class Optimizer : std::uint8_t { kAdamW, kSgd };
// How the framework runs the update: one kernel over all tensors, the multi-tensor chain that needs
// a temporary copy of them all, or that chain for one tensor after the other.
enum class OptimizerImplementation : std::uint8_t { kFused, kForeach, kSingle };

// Where the training loop reads a value from the device (a loss, a norm, a counter of steps), so
// that the host waits until all that was issued on the compute stream is done: nowhere, at the end
// of each step, before each update, or after the backward of each micro-batch. kPhase: until all
// streams are done, after every forward, every backward and the update, as timers do that
// synchronise (DeepSpeed's wall_clock_breakdown, Megatron-LM before 3.0).
enum class HostWaits : std::uint8_t { kNever, kStep, kUpdate, kMicroBatch, kPhase };

// `software: {torch: "2.6"}` as numbers that compare.
struct Version {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};

// The newest versions whose rules are known.
inline constexpr Version kNewestTorch{2, 14}, kNewestNccl{2, 30}, kNewestDriver{580, 0};

struct Software {
  Version torch = kNewestTorch;
  Version nccl = kNewestNccl;
  Version driver = kNewestDriver;  // NVIDIA's: 570.86 is {570, 86}
  // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (engine/caching_allocator.h).
  bool expandable_segments = false;
  friend bool operator==(const Software&, const Software&) = default;
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
  model::Share checkpointed_blocks{};  // which part of the blocks that holds for
  bool activation_offload = false;     // what blocks keep waits for backward in the host's memory
  model::Attention attention = model::Attention::kFlash;
  bool checkpoint_early_stop = false;  // full recomputation: model::WorkOptions
  model::Loss loss = model::Loss::kEager;
  bool compile = false;  // memory-bound kernels are fused: model::WorkOptions
  HostWaits host_waits = HostWaits::kNever;
  model::Implementation norm = model::Implementation::kFused;
  model::Implementation rotary = model::Implementation::kFused;
  model::Implementation activation_function = model::Implementation::kEager;
  bool repeat_kv = false;  // model::WorkOptions
  // Follows from the rest: kernels compute in fewer bits than parameters have, and no framework
  // casts these (ddp).
  bool autocast = false;
  // The largest norm of all gradients together: they are scaled down to it before the update.
  std::optional<double> gradient_clipping;
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  bool step_barrier = false;   // measure one step between barriers instead of the steady interval
  Dispatch dispatch;           // of the framework; zero: launches alone
  bool dispatch_known = true;  // false: no source says it, and forecasts leave it out
  friend bool operator==(const Training&, const Training&) = default;
};

struct Parallelism {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  // With tensor parallelism: between the divided regions the tokens are, too.
  bool sequence_parallel = false;
  // Of pipelines: how stages order their passes (ScheduleOf, pipeline.h), how many chunks of the
  // model each has, and how many of the model's blocks each chunk has, in the order of the layers.
  // A schedule that a file lists is `listed`, under the file's name.
  std::string schedule = "sequential";
  std::shared_ptr<const parallel::PipelineSchedule> listed = nullptr;
  bool splits_backward = false;  // it has passes of gradients of inputs alone
  std::int64_t virtual_stages = 1;
  std::vector<std::int64_t> stage_layers = {};
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

struct Plan {
  Training training;
  Parallelism parallelism;
  DataParallel data_parallel;
  Software software;
};

const char* Name(Optimizer optimizer);
const char* Name(OptimizerImplementation implementation);
const char* Name(HostWaits waits);

// The type in which kernels read parameters and write gradients: 16 bits beside 8-bit products, 32
// beside those that round to TF32.
constexpr DataType ComputeType(DataType precision) {
  if (precision == DataType::kTf32) return DataType::kFp32;
  return precision == DataType::kFp8 ? DataType::kBf16 : precision;
}

// Bytes of persistent optimizer state per parameter: AdamW's two FP32 moments (SGD: one momentum),
// plus the FP32 master copy when the parameters are kept in 16 bits or fewer. AdamW on bf16
// parameters: k = 12.
std::int64_t OptimizerBytesPerParameter(const Training& training);

// One micro-batch on one rank, as the model's work is asked for.
model::WorkOptions WorkOptionsOf(const Plan& plan);

// The type in which backward writes gradients: the parameters', or gradient_dtype where that is
// smaller.
DataType WrittenGradientType(const Training& training);

// True when gradients accumulate in a larger type than backward writes: the accumulators then stand
// beside the gradients ("FP32 gradient accumulation": 4 more bytes per parameter).
bool AccumulatesApart(const Training& training);

}  // namespace stepcast::plan
