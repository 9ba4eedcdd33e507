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

// The section `training`: what was said, and what holds. Keys, values and documentation are rows of
// settings.h.
namespace stepcast::plan {

// What hosts do for a training step beside starting kernels.

// `training.data_loading`: torch.utils.data.DataLoader.
struct DataLoading {
  Time time;                   // that one process takes to make a rank's micro-batch
  std::int64_t workers = 0;    // processes of a rank; 0: its own
  std::int64_t prefetch = 2;   // micro-batches that each worker makes ahead
  bool pin_memory = true;      // the copy to the device does not hold the host up
  std::optional<Bytes> bytes;  // of a micro-batch; not set: two 64-bit integers a token
  friend bool operator==(const DataLoading&, const DataLoading&) = default;
};

// When the training goes on: after the state is in storage, or after it is in the host's memory.
enum class CheckpointMode : std::uint8_t { kSync, kAsync };
const char* Name(CheckpointMode mode);  // "sync"

// `training.checkpoint_saving`: what a step bears of it, on average over many steps.
struct CheckpointSaving {
  std::int64_t every = 1000;  // steps
  CheckpointMode mode = CheckpointMode::kSync;
  Bandwidth bandwidth;  // of a node to its storage
  friend bool operator==(const CheckpointSaving&, const CheckpointSaving&) = default;
};

enum class Optimizer : std::uint8_t {
  kAdamW,
  kSgd,
  // Layer-wise rates by the norms of whole tensors (You et al. 2019, arXiv 1904.00962), as Apex's
  // FusedLAMB computes it.
  kLamb,
  // AdamW with moments in 8 bits (Dettmers et al. 2021, arXiv 2110.02861): bitsandbytes' or, for
  // tensors that are DTensors, torchao's.
  kAdamW8bit,
  // The sign of a momentum (Chen et al. 2023, arXiv 2302.06675), as bitsandbytes computes it.
  kLion,
  // Second moments of a matrix as sums of its rows and columns (Shazeer and Stern 2018,
  // arXiv 1804.04235), as transformers computes it.
  kAdafactor,
  // Matrices of blocks move by an orthogonalised momentum (Jordan 2024; Liu et al. 2025,
  // arXiv 2502.16982), everything else by AdamW.
  kMuon,
};
// Whether every parameter has as many moments as any other, of one type; optimizer_states.h has
// the law of the others.
constexpr bool HasEqualMoments(Optimizer optimizer) {
  return optimizer != Optimizer::kAdamW8bit && optimizer != Optimizer::kAdafactor &&
         optimizer != Optimizer::kMuon;
}
// Whether the update is kernels of the optimizer's own library, tensor by tensor, so that there is
// no choice of OptimizerImplementation.
constexpr bool HasOwnKernels(Optimizer optimizer) {
  return optimizer == Optimizer::kAdamW8bit || optimizer == Optimizer::kLion ||
         optimizer == Optimizer::kAdafactor;
}
// Moments of each parameter, which an update reads and writes beside it; of an optimizer that has
// equal ones.
constexpr std::int64_t MomentsOf(Optimizer optimizer) {
  return optimizer == Optimizer::kSgd || optimizer == Optimizer::kLion ? 1 : 2;
}
// What an optimizer keeps beside parameters of 16 bits so that small changes are not lost: nothing;
// a copy of each in FP32; or the 16 bits that FP32 has beyond BF16, which together with the
// parameter are that copy (Transformer Engine's FusedAdam, store_param_remainders).
enum class MasterWeights : std::uint8_t { kNone, kFp32, kFp16Remainder };
// How the framework runs the update: one kernel over all tensors, the multi-tensor chain that needs
// a temporary copy of them all, or that chain for one tensor after the other.
enum class OptimizerImplementation : std::uint8_t { kFused, kForeach, kSingle };

// Where the training loop reads a value from the device (a loss, a norm, a counter of steps), so
// that the host waits until all that was issued on the compute stream is done: nowhere, at the end
// of each step, before each update, or after the backward of each micro-batch. kPhase: until all
// streams are done, after every forward, every backward and the update, as timers do that
// synchronise (DeepSpeed's wall_clock_breakdown, Megatron-LM before 3.0). kLaunch: until what was
// launched is done, after every kernel, copy and collective (CUDA_LAUNCH_BLOCKING=1).
enum class HostWaits : std::uint8_t { kNever, kStep, kUpdate, kMicroBatch, kPhase, kLaunch };

const char* Name(Optimizer optimizer);
const char* Name(OptimizerImplementation implementation);
const char* Name(MasterWeights master_weights);
const char* Name(HostWaits waits);

// How sequences are made of samples that differ in length: several samples fill a sequence; each is
// a sequence of its own, and those of a micro-batch are padded to the longest of them; or, beside
// that, samples of about one length are trained together, so that none is padded.
enum class Batching : std::uint8_t { kPacked, kPadded, kByLength };
const char* Name(Batching batching);

struct Lengths {
  Batching batching = Batching::kPacked;
  model::SampleLengths histogram{};
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// Of cuBLAS, with `deterministic`: CUBLAS_WORKSPACE_CONFIG=:4096:8.
inline constexpr Bytes kDeterministicWorkspace = Bytes(8 * (4 << 20));

// Defaults that hold whatever the framework are those written here.
struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch_size = 0;  // = micro_batch_size x gradient_accumulation x data
  DataType precision = DataType::kBf16;
  DataType parameter_dtype = DataType::kBf16;
  DataType gradient_dtype = DataType::kBf16;
  DataType reduce_dtype = DataType::kBf16;
  MasterWeights master_weights = MasterWeights::kFp32;  // beside parameters of 16 bits
  DataType optimizer_state_dtype = DataType::kFp32;     // of the moments
  Optimizer optimizer = Optimizer::kAdamW;
  OptimizerImplementation optimizer_implementation = OptimizerImplementation::kFused;
  bool optimizer_in_backward = false;  // lowering/sharded_state.h
  model::Checkpointing activation_checkpointing = model::Checkpointing::kNone;
  model::RecomputedModules recompute_modules{};  // by selective recomputation
  model::Share checkpointed_blocks{};            // which part of the blocks that holds for
  std::int64_t blocks_per_checkpoint = 1;        // blocks under one checkpoint
  bool activation_offload = false;  // what blocks keep waits for backward in the host's memory
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
  bool sinks_fallback = false;     // plan.cc
  std::int64_t masked_tokens = 0;  // likewise
  // Of samples, where they are not as long as a sequence; `document_length` is short for packed
  // ones of one length.
  std::optional<Lengths> lengths{};
  std::int64_t document_length = 0;
  model::TensorOverlap tensor_overlap = model::TensorOverlap::kNone;
  model::Fp8Scaling fp8_scaling = model::Fp8Scaling::kDelayed;
  bool tp_only_amax_red = false;                      // megatron: lowering/passes.h
  bool async_tensor_model_parallel_allreduce = true;  // megatron: WorkOptions::sums_beside_weights
  std::int64_t make_vocab_size_divisible_by = 128;    // megatron: a rank's words
  model::Lora lora{};                                 // adapters, if it has a rank
  // Follows from the rest: kernels compute in fewer bits than parameters have, and no framework
  // casts these (ddp; fsdp1 where mixed_precision says so).
  bool autocast = false;
  // The largest norm of all gradients together: they are scaled down to it before the update.
  std::optional<double> gradient_clipping;
  bool deterministic = false;  // lowering/step_parts.h
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  bool step_barrier = false;   // measure one step between barriers instead of the steady interval
  Dispatch dispatch;           // of the framework; zero: launches alone
  bool dispatch_known = true;  // false: no source says it, and forecasts leave it out
  friend bool operator==(const Training&, const Training&) = default;

  // Sequences are of samples' lengths: micro-batches differ in theirs, up to `sequence_length`.
  bool has_padded_lengths() const { return lengths && lengths->batching != Batching::kPacked; }
  // What fills sequences; empty: a sequence is one document.
  model::SampleLengths documents() const;
};

// Whether Transformer Engine's layers compute: where its norms do, where it casts to 8 or 4 bits,
// or where its user buffers overlap.
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
  std::optional<model::Lora> lora;  // frozen_dtype stands by itself
  std::optional<DataType> frozen_dtype;
  std::optional<bool> step_barrier;
  std::optional<bool> deterministic;
  std::optional<double> gradient_clipping;
  std::optional<DataLoading> data_loading;
  std::optional<CheckpointSaving> checkpoint_saving;
  std::optional<Dispatch> dispatch;
};

}  // namespace stepcast::plan
