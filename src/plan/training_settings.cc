#include <cstdint>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/framework_style.h"
#include "src/plan/plan.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

using Given = TrainingRequest;
using Switch = SwitchSetting<Given, Training>;
using Count = CountSetting<Given, Training>;

// Generous limits: no machine is larger, and their products fit in 64 bits.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMostSequences = 1'000'000'000;
constexpr std::int64_t kMostBlocks = 1'000'000;

bool HasRotaryPositions(const model::Architecture& architecture) {
  return architecture.position == model::Position::kRotary;
}
bool HasSinks(const model::Architecture& architecture) { return architecture.sinks; }
bool HasGroupedQueries(const model::Architecture& architecture) {
  return architecture.kv_heads < architecture.heads;
}

bool HasShortParameters(const Training& training) {
  return SizeOf(training.parameter_dtype) < SizeOf(DataType::kFp32);
}
bool HasCheckpoints(const Training& training) {
  return training.activation_checkpointing != model::Checkpointing::kNone;
}
bool ChecksWholeBlocks(const Training& training) {
  return training.activation_checkpointing == model::Checkpointing::kFull;
}
bool IsSelective(const Training& training) {
  return training.activation_checkpointing == model::Checkpointing::kSelective;
}
bool Gathers(const Training& training) { return training.masked_tokens > 0; }
bool PacksAlike(const Training& training) { return training.document_length > 0; }
bool HasLengths(const Training& training) { return training.lengths.has_value(); }
bool Adapts(const Training& training) { return training.lora.adapts(); }
// Whether whole blocks or operations are recomputed: their last product may be left out.
bool Recomputes(const Training& training) {
  return training.activation_checkpointing == model::Checkpointing::kFull ||
         training.activation_checkpointing == model::Checkpointing::kSelectiveOp;
}

// DeepSpeed's stage 3 ends each backward and each step with a host wait for the device.
bool WaitsAnyway(const Plan& plan) {
  return StyleOf(plan.data_parallel.framework).gradients == GradientStore::kPartitions &&
         plan.data_parallel.zero_stage == 3;
}
std::string_view WhyNoHostWaits(const Plan& plan) {
  const HostWaits waits = plan.training.host_waits;
  const bool textbook = TraitsOf(plan.data_parallel.framework).textbook;
  if (waits == HostWaits::kLaunch) {
    const Parallelism& axes = plan.parallelism;
    const bool one_gpu = GradientRanks(plan) == 1 && axes.tensor == 1 && axes.pipeline == 1 &&
                         axes.context == 1 && axes.expert == 1;
    return textbook && one_gpu
               ? "has no effect with framework reference on one GPU, because no operations "
                 "run concurrently"
               : "";
  }
  if (textbook) {
    return "has no effect with framework reference, which does not model the host";
  }
  return waits != HostWaits::kPhase && WaitsAnyway(plan)
             ? "has no effect with framework deepspeed at stage 3, because the host waits for the "
               "device in each step"
             : "";
}
// Pipeline stages end their steps at different times.
std::string_view WhyNoStepBarrier(const Plan& plan) {
  if (plan.parallelism.pipeline > 1) return "";
  if (TraitsOf(plan.data_parallel.framework).textbook) {
    return "has no effect with framework reference, because successive steps do not overlap";
  }
  return WaitsAnyway(plan) ? "has no effect with framework deepspeed at stage 3, because "
                             "successive steps do not overlap"
                           : "";
}

std::vector<TrainingSetting> Rows() {
  return {
      {.key = "sequence_length",
       .type = Count{&Given::sequence_length, &Training::sequence_length, 1, kMostTokens, 4096},
       .required = true,
       .uses = {}},
      {.key = "micro_batch_size",
       .type = Count{&Given::micro_batch_size, &Training::micro_batch_size, 1, kMostSequences, 1},
       .required = true,
       .uses = {}},
      {.key = "gradient_accumulation",
       .type = Count{&Given::gradient_accumulation, &Training::gradient_accumulation, 1,
                     kMostSequences, 1},
       .of_task = true,
       .uses = {}},
      {.key = "global_batch_size",
       .type = OwnNotation<&Given::global_batch_size>(),
       .of_task = true,
       .uses = {}},
      {.key = "precision",
       .type = Words<&Given::precision, &Training::precision, DataType::kBf16, DataType::kFp16,
                     DataType::kFp32, DataType::kTf32, DataType::kFp8, DataType::kMxfp8,
                     DataType::kNvfp4>(),
       .required = true,
       .uses = {}},
      {.key = "parameter_dtype",
       .type = Words<&Given::parameter_dtype, &Training::parameter_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {}},
      {.key = "master_weights",
       .type = Words<&Given::master_weights, &Training::master_weights, MasterWeights::kNone,
                     MasterWeights::kFp32, MasterWeights::kFp16Remainder>(),
       .uses = {},
       .shown = HasShortParameters},
      {.key = "optimizer_state_dtype",
       .type = Words<&Given::optimizer_state_dtype, &Training::optimizer_state_dtype,
                     DataType::kFp32, DataType::kBf16, DataType::kFp16>(),
       .uses = {}},
      {.key = "gradient_dtype",
       .type = Words<&Given::gradient_dtype, &Training::gradient_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {}},
      {.key = "reduce_dtype",
       .type = Words<&Given::reduce_dtype, &Training::reduce_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {}},
      {.key = "optimizer",
       .type = Words<&Given::optimizer, &Training::optimizer, Optimizer::kAdamW, Optimizer::kSgd,
                     Optimizer::kLamb, Optimizer::kAdamW8bit, Optimizer::kLion,
                     Optimizer::kAdafactor, Optimizer::kMuon>(),
       .required = true,
       .uses = {}},
      {.key = "optimizer_implementation",
       .type = Words<&Given::optimizer_implementation, &Training::optimizer_implementation,
                     OptimizerImplementation::kFused, OptimizerImplementation::kForeach,
                     OptimizerImplementation::kSingle>(),
       .uses = {},
       .shown = [](const Training& training) { return !HasOwnKernels(training.optimizer); }},
      {.key = "optimizer_in_backward",
       .type = Switch{&Given::optimizer_in_backward, &Training::optimizer_in_backward},
       .uses = {Of(Framework::kFsdp2)},
       .shown = [](const Training& training) { return training.optimizer_in_backward; }},
      {.key = "activation_checkpointing",
       .type = Words<&Given::activation_checkpointing, &Training::activation_checkpointing,
                     model::Checkpointing::kNone, model::Checkpointing::kSelective,
                     model::Checkpointing::kSelectiveOp, model::Checkpointing::kFull>(),
       .uses = {},
       .of_architectures = true},
      {.key = "recompute_modules",
       .type = OwnNotation<&Given::recompute_modules>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = IsSelective},
      {.key = "checkpoint_early_stop",
       .type = Switch{&Given::checkpoint_early_stop, &Training::checkpoint_early_stop},
       .uses = {},
       .of_architectures = true,
       .shown = Recomputes},
      {.key = "checkpointed_blocks",
       .type = OwnNotation<&Given::checkpointed_blocks>(),
       .uses = {},
       .of_architectures = true,
       .shown = HasCheckpoints},
      {.key = "blocks_per_checkpoint",
       .type =
           Count{&Given::blocks_per_checkpoint, &Training::blocks_per_checkpoint, 1, kMostBlocks},
       .uses = {Of(Framework::kReference), Of(Framework::kDdp), Of(Framework::kDeepSpeed),
                Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = ChecksWholeBlocks},
      {.key = "attention",
       .type = Words<&Given::attention, &Training::attention, model::Attention::kFlash,
                     model::Attention::kFlash1, model::Attention::kFlash3, model::Attention::kCudnn,
                     model::Attention::kFlex, model::Attention::kMath, model::Attention::kMathFp32,
                     model::Attention::kFusedSoftmax>(),
       .uses = {},
       .of_architectures = true},
      {.key = "compile",
       .type = Switch{&Given::compile, &Training::compile},
       .uses = {},
       .of_architectures = true},
      {.key = "loss",
       .type = Words<&Given::loss, &Training::loss, model::Loss::kEager, model::Loss::kInPlace,
                     model::Loss::kFused, model::Loss::kHuggingFace, model::Loss::kChunked,
                     model::Loss::kCut>(),
       .uses = {},
       .of_architectures = true},
      {.key = "loss_chunk",
       .type = Count{&Given::loss_chunk, &Training::loss_chunk, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.loss_chunk > 0; }},
      {.key = "norm",
       .type = Words<&Given::norm, &Training::norm, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true},
      {.key = "rotary",
       .type = Words<&Given::rotary, &Training::rotary, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .had_by = HasRotaryPositions,
       .needed = "rotary positions"},
      {.key = "activation_function",
       .type =
           Words<&Given::activation_function, &Training::activation_function,
                 model::Implementation::kEager, model::Implementation::kFused,
                 model::Implementation::kCompiled, model::Implementation::kApex,
                 model::Implementation::kTransformerEngine, model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true},
      {.key = "repeat_kv",
       .type = Switch{&Given::repeat_kv, &Training::repeat_kv},
       .uses = {},
       .of_architectures = true,
       .had_by = HasGroupedQueries,
       .needed = "grouped queries"},
      {.key = "sinks_fallback",
       .type = Switch{&Given::sinks_fallback, &Training::sinks_fallback},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = HasSinks,
       .needed = "attention sinks",
       .shown = [](const Training& training) { return training.sinks_fallback; }},
      {.key = "masked_tokens",
       .type = Count{&Given::masked_tokens, &Training::masked_tokens, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Gathers},
      {.key = "document_length",
       .type = Count{&Given::document_length, &Training::document_length, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = PacksAlike},
      {.key = "lengths",
       .type = OwnNotation<&Given::lengths>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = HasLengths},
      {.key = "fp8_scaling",
       .type = Words<&Given::fp8_scaling, &Training::fp8_scaling, model::Fp8Scaling::kDelayed,
                     model::Fp8Scaling::kCurrent, model::Fp8Scaling::kTorchao,
                     model::Fp8Scaling::kTorchaoRowwise>(),
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.precision == DataType::kFp8; }},
      {.key = "tensor_overlap",
       .type = Words<&Given::tensor_overlap, &Training::tensor_overlap, model::TensorOverlap::kNone,
                     model::TensorOverlap::kUserBuffers, model::TensorOverlap::kAsync>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kFsdp2)},
       .of_architectures = true,
       .shown =
           [](const Training& training) {
             return training.tensor_overlap != model::TensorOverlap::kNone;
           }},
      {.key = "tp_only_amax_red",
       .type = Switch{&Given::tp_only_amax_red, &Training::tp_only_amax_red},
       .uses = {Of(Framework::kMegatron, "with `fp8_scaling: delayed`")},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.tp_only_amax_red; }},
      {.key = "async_tensor_model_parallel_allreduce",
       .type = Switch{&Given::async_tensor_model_parallel_allreduce,
                      &Training::async_tensor_model_parallel_allreduce},
       .uses = {Of(Framework::kMegatron, "with tensor parallelism")},
       .of_architectures = true,
       .shown =
           [](const Training& training) {
             return !training.async_tensor_model_parallel_allreduce;
           }},
      {.key = "make_vocab_size_divisible_by",
       .type = Count{&Given::make_vocab_size_divisible_by, &Training::make_vocab_size_divisible_by,
                     1, kMostTokens},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown =
           [](const Training& training) { return training.make_vocab_size_divisible_by != 128; }},
      {.key = "lora",
       .type = OwnNotation<&Given::lora>(),
       .of_task = true,
       .uses = {Of(Framework::kReference, "stages 0 to 2"), Of(Framework::kDdp),
                Of(Framework::kFsdp1), Of(Framework::kFsdp2), Of(Framework::kMegatron),
                Of(Framework::kDeepSpeed, "stages 0 to 2")},
       .of_architectures = true,
       .shown = Adapts},
      {.key = "frozen_dtype",
       .type = OwnNotation<&Given::frozen_dtype>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Adapts},
      {.key = "activation_offload",
       .type = Switch{&Given::activation_offload, &Training::activation_offload},
       .uses = {}},
      {.key = "host_waits",
       .type = Words<&Given::host_waits, &Training::host_waits, HostWaits::kNever, HostWaits::kStep,
                     HostWaits::kUpdate, HostWaits::kMicroBatch, HostWaits::kPhase,
                     HostWaits::kLaunch>(),
       .of_task = true,
       .uses = {},
       .idle = WhyNoHostWaits},
      {.key = "gradient_clipping",
       .type = OwnNotation<&Given::gradient_clipping>(),
       .of_task = true,
       .uses = {}},
      {.key = "deterministic",
       .type = Switch{&Given::deterministic, &Training::deterministic},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.deterministic; }},
      {.key = "data_loading",
       .type = OwnNotation<&Given::data_loading>(),
       .of_task = true,
       .uses = {}},
      {.key = "checkpoint_saving",
       .type = OwnNotation<&Given::checkpoint_saving>(),
       .of_task = true,
       .uses = {}},
      {.key = "step_barrier",
       .type = Switch{&Given::step_barrier, &Training::step_barrier},
       .of_task = true,
       .uses = {},
       .idle = WhyNoStepBarrier},
      {.key = "dispatch",
       .type = OwnNotation<&Given::dispatch>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true},
  };
}

}  // namespace

std::span<const TrainingSetting> TrainingSettings() {
  static const std::vector<TrainingSetting> rows = Rows();
  return rows;
}

}  // namespace stepcast::plan
