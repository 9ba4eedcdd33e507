#pragma once

#include <cstdint>
#include <optional>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/model/lora.h"
#include "src/model/recomputation.h"
#include "src/model/sample_lengths.h"

// The section `training` of a scenario: the settings as written, and the settings with defaults.
// settings.h lists keys, values and documentation.
namespace stepcast::plan {

// The work of the host in a training step, in addition to kernel launches.

// The mapping `training.data_loading`, which describes a torch.utils.data.DataLoader.
struct DataLoading {
  Time time;                   // time in which one process prepares a rank's micro-batch
  std::int64_t workers = 0;    // processes per rank; 0: the rank's process prepares micro-batches
  std::int64_t prefetch = 2;   // micro-batches that each worker prepares ahead
  bool pin_memory = true;      // the host does not wait for the copy to the device
  std::optional<Bytes> bytes;  // bytes of a micro-batch; not set: two 64-bit integers per token
  friend bool operator==(const DataLoading&, const DataLoading&) = default;
};

// When training continues after a checkpoint was started. kSync: after the state is in storage.
// kAsync: after the state is in host memory.
enum class CheckpointMode : std::uint8_t { kSync, kAsync };
const char* Name(CheckpointMode mode);  // "sync"

// The mapping `training.checkpoint_saving`. The forecast step includes the average cost of saving
// per step.
struct CheckpointSaving {
  std::int64_t every = 1000;  // steps
  CheckpointMode mode = CheckpointMode::kSync;
  Bandwidth bandwidth;  // bandwidth from a node to its storage
  friend bool operator==(const CheckpointSaving&, const CheckpointSaving&) = default;
};

enum class Optimizer : std::uint8_t {
  kAdamW,
  kSgd,
  // LAMB: each layer's learning rate depends on the norms of its tensors (You et al. 2019, arXiv
  // 1904.00962), as Apex's FusedLAMB computes it.
  kLamb,
  // AdamW with 8-bit moments (Dettmers et al. 2021, arXiv 2110.02861), as implemented by
  // bitsandbytes or, for DTensors, by torchao.
  kAdamW8bit,
  // Lion: the update is the sign of a momentum (Chen et al. 2023, arXiv 2302.06675), as
  // bitsandbytes computes it.
  kLion,
  // Adafactor: the second moments of a matrix are kept as sums of rows and columns (Shazeer and
  // Stern 2018, arXiv 1804.04235), as transformers computes them.
  kAdafactor,
  // Muon: an orthogonalized momentum updates the matrices of blocks (Jordan 2024; Liu et al. 2025,
  // arXiv 2502.16982). AdamW updates all other parameters.
  kMuon,
};
// Returns whether every parameter has the same number of moments, of one type. For other
// optimizers, see optimizer_states.h.
constexpr bool HasEqualMoments(Optimizer optimizer) {
  return optimizer != Optimizer::kAdamW8bit && optimizer != Optimizer::kAdafactor &&
         optimizer != Optimizer::kMuon;
}
// Returns whether another library's kernels update each tensor, so that OptimizerImplementation has
// no effect.
constexpr bool HasOwnKernels(Optimizer optimizer) {
  return optimizer == Optimizer::kAdamW8bit || optimizer == Optimizer::kLion ||
         optimizer == Optimizer::kAdafactor;
}
// Returns the number of moments per parameter that an update reads and writes. Only for optimizers
// with equal moments.
constexpr std::int64_t MomentsOf(Optimizer optimizer) {
  return optimizer == Optimizer::kSgd || optimizer == Optimizer::kLion ? 1 : 2;
}
// Data that an optimizer stores in addition to 16-bit parameters, to preserve small updates. kNone:
// no data. kFp32: an FP32 copy of each parameter. kFp16Remainder: the lower 16 bits of each
// parameter's FP32 value (Transformer Engine's FusedAdam, store_param_remainders).
enum class MasterWeights : std::uint8_t { kNone, kFp32, kFp16Remainder };
// How the framework runs the update. kFused: one kernel for all tensors. kForeach: several
// multi-tensor kernels, with a temporary copy of all tensors. kSingle: several kernels for each
// tensor.
enum class OptimizerImplementation : std::uint8_t { kFused, kForeach, kSingle };

// When the training loop reads a value from the device, such as a loss, a norm or a step counter.
// The host then waits for all work issued on the compute stream:
//   kNever: never.
//   kStep: at the end of each step.
//   kUpdate: before each update.
//   kMicroBatch: after the backward of each micro-batch.
//   kPhase: for all streams, after every forward, every backward and the update, like timers that
//     synchronize (DeepSpeed's wall_clock_breakdown, Megatron-LM before 3.0).
//   kLaunch: after every kernel, copy and collective (CUDA_LAUNCH_BLOCKING=1).
enum class HostWaits : std::uint8_t { kNever, kStep, kUpdate, kMicroBatch, kPhase, kLaunch };

const char* Name(Optimizer optimizer);
const char* Name(OptimizerImplementation implementation);
const char* Name(MasterWeights master_weights);
const char* Name(HostWaits waits);

// How samples of different lengths form sequences:
//   kPacked: several samples fill a sequence.
//   kPadded: each sample is a sequence, padded to the longest sample of its micro-batch.
//   kByLength: like kPadded, but micro-batches have samples of similar length and no padding.
enum class Batching : std::uint8_t { kPacked, kPadded, kByLength };
const char* Name(Batching batching);

struct Lengths {
  Batching batching = Batching::kPacked;
  model::SampleLengths histogram{};
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// The size of cuBLAS's workspace with `deterministic`: CUBLAS_WORKSPACE_CONFIG=:4096:8.
inline constexpr Bytes kDeterministicWorkspace = Bytes(8 * (4 << 20));

// The settings of this section with defaults. The defaults in this struct apply to all frameworks.
struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch_size = 0;  // = micro_batch_size x gradient_accumulation x data
  DataType precision = DataType::kBf16;
  DataType parameter_dtype = DataType::kBf16;
  DataType gradient_dtype = DataType::kBf16;
  DataType reduce_dtype = DataType::kBf16;
  MasterWeights master_weights = MasterWeights::kFp32;  // used with 16-bit parameters
  DataType optimizer_state_dtype = DataType::kFp32;     // type of the moments
  Optimizer optimizer = Optimizer::kAdamW;
  OptimizerImplementation optimizer_implementation = OptimizerImplementation::kFused;
  bool optimizer_in_backward = false;  // lowering/model_state.h
  model::Checkpointing activation_checkpointing = model::Checkpointing::kNone;
  model::RecomputedModules recompute_modules{};  // modules for selective recomputation
  model::Share checkpointed_blocks{};      // the blocks that activation_checkpointing applies to
  std::int64_t blocks_per_checkpoint = 1;  // blocks under one checkpoint
  bool activation_offload = false;         // offload activations of blocks until backward
  model::Attention attention = model::Attention::kFlash;
  bool checkpoint_early_stop = false;  // full recomputation: model::WorkOptions
  model::Loss loss = model::Loss::kEager;
  std::int64_t loss_chunk = 0;  // model::WorkOptions
  bool compile = false;         // memory-bound kernels are fused: model::WorkOptions
  HostWaits host_waits = HostWaits::kNever;
  model::Implementation norm = model::Implementation::kFused;
  model::Implementation rotary = model::Implementation::kFused;
  model::Implementation activation_function = model::Implementation::kEager;
  bool repeat_kv = false;          // model::WorkOptions
  bool sinks_fallback = false;     // see plan.cc
  std::int64_t masked_tokens = 0;  // model::WorkOptions
  // The sample lengths, if they differ from the sequence length. `document_length` specifies packed
  // samples of one length.
  std::optional<Lengths> lengths{};
  std::int64_t document_length = 0;
  model::TensorOverlap tensor_overlap = model::TensorOverlap::kNone;
  model::Fp8Scaling fp8_scaling = model::Fp8Scaling::kDelayed;
  bool tp_only_amax_red = false;                      // megatron: lowering/passes.h
  bool async_tensor_model_parallel_allreduce = true;  // megatron: WorkOptions::sums_beside_weights
  std::int64_t make_vocab_size_divisible_by = 128;    // megatron: divisor of a rank's vocabulary
  model::Lora lora{};                                 // adapters; rank 0: no adapters
  // Whether torch.autocast is used: kernels compute in fewer bits than parameters have, and the
  // framework does not cast parameters (ddp; fsdp1 if mixed_precision is autocast). Not a setting:
  // derived from other settings.
  bool autocast = false;
  // The largest norm of all gradients together. If the norm is larger, gradients are scaled down
  // before the optimizer step. Not set: no clipping.
  std::optional<double> gradient_clipping;
  bool deterministic = false;  // lowering/step_parts.h
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  bool step_barrier = false;   // the step time is the time of one step between barriers
  Dispatch dispatch;           // host time of the framework's code; zero: only kernel launches
  bool dispatch_known = true;  // false: `dispatch` is unknown, and forecasts omit it
  friend bool operator==(const Training&, const Training&) = default;

  // Returns whether each sequence is one sample, so that micro-batches have different lengths, up
  // to `sequence_length`.
  bool has_padded_lengths() const { return lengths && lengths->batching != Batching::kPacked; }
  // Returns the lengths of the documents that fill sequences. Empty if each sequence is one
  // document.
  model::SampleLengths documents() const;
};

// Returns whether the plan uses Transformer Engine: its norms, its casts to 8 or 4 bits, or its
// user buffers.
bool HasTransformerEngine(const Training& training);

struct TrainingRequest {
  std::optional<std::int64_t> sequence_length;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> gradient_accumulation;
  std::optional<std::int64_t> global_batch_size;
  std::optional<DataType> precision;
  std::optional<DataType> parameter_dtype;
  std::optional<DataType> gradient_dtype;
  std::optional<DataType> reduce_dtype;
  std::optional<MasterWeights> master_weights;
  std::optional<DataType> optimizer_state_dtype;
  std::optional<Optimizer> optimizer;
  std::optional<OptimizerImplementation> optimizer_implementation;
  std::optional<bool> optimizer_in_backward;
  std::optional<model::Checkpointing> activation_checkpointing;
  std::optional<model::RecomputedModules> recompute_modules;
  std::optional<model::Share> checkpointed_blocks;
  std::optional<std::int64_t> blocks_per_checkpoint;
  std::optional<bool> activation_offload;
  std::optional<model::Attention> attention;
  std::optional<bool> checkpoint_early_stop;
  std::optional<bool> compile;
  std::optional<model::Loss> loss;
  std::optional<std::int64_t> loss_chunk;
  std::optional<HostWaits> host_waits;
  std::optional<model::Implementation> norm;
  std::optional<model::Implementation> rotary;
  std::optional<model::Implementation> activation_function;
  std::optional<bool> repeat_kv;
  std::optional<bool> sinks_fallback;
  std::optional<std::int64_t> masked_tokens;
  std::optional<Lengths> lengths;
  std::optional<std::int64_t> document_length;
  std::optional<model::TensorOverlap> tensor_overlap;
  std::optional<model::Fp8Scaling> fp8_scaling;
  std::optional<bool> tp_only_amax_red;
  std::optional<bool> async_tensor_model_parallel_allreduce;
  std::optional<std::int64_t> make_vocab_size_divisible_by;
  std::optional<model::Lora> lora;  // adapters, without frozen_dtype, which is a separate member
  std::optional<DataType> frozen_dtype;
  std::optional<bool> step_barrier;
  std::optional<bool> deterministic;
  std::optional<double> gradient_clipping;
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  std::optional<Dispatch> dispatch;
};

}  // namespace stepcast::plan
