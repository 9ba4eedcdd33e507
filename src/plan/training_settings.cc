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
               ? "with framework reference on one GPU, where nothing runs beside anything else"
               : "";
  }
  if (textbook) {
    return "with framework reference, which leaves the host out";
  }
  return waits != HostWaits::kPhase && WaitsAnyway(plan)
             ? "with framework deepspeed at stage 3, whose host waits there in any case"
             : "";
}
// Pipeline stages end their steps at different times.
std::string_view WhyNoStepBarrier(const Plan& plan) {
  if (plan.parallelism.pipeline > 1) return "";
  if (TraitsOf(plan.data_parallel.framework).textbook) {
    return "with framework reference, whose steps do not overlap";
  }
  return WaitsAnyway(plan) ? "with framework deepspeed at stage 3, whose steps do not overlap" : "";
}

std::vector<TrainingSetting> Rows() {
  return {
      {.key = "sequence_length",
       .type = Count{&Given::sequence_length, &Training::sequence_length, 1, kMostTokens, 4096},
       .required = true,
       .uses = {},
       .values = "tokens, from 1; at most the model's learned positions",
       .default_value = "required"},
      {.key = "micro_batch_size",
       .type = Count{&Given::micro_batch_size, &Training::micro_batch_size, 1, kMostSequences, 1},
       .required = true,
       .uses = {},
       .values = "mbs, sequences per GPU per forward and backward",
       .default_value = "required"},
      {.key = "gradient_accumulation",
       .type = Count{&Given::gradient_accumulation, &Training::gradient_accumulation, 1,
                     kMostSequences, 1},
       .of_task = true,
       .uses = {},
       .values = "grad_acc, micro-batches per step",
       .default_value = "exactly one of these two;"},
      {.key = "global_batch_size",
       .type = OwnNotation<&Given::global_batch_size>(),
       .of_task = true,
       .uses = {},
       .values = "gbs = mbs x grad_acc x dp, sequences per step",
       .default_value = "the other follows"},
      {.key = "precision",
       .type = Words<&Given::precision, &Training::precision, DataType::kBf16, DataType::kFp16,
                     DataType::kFp32, DataType::kTf32, DataType::kFp8, DataType::kMxfp8,
                     DataType::kNvfp4>(),
       .required = true,
       .uses = {},
       .values =
           "compute: `bf16`, `fp16`, `fp32`, `tf32` (fp32 in memory, matrix products on "
           "tensor cores: PyTorch's `allow_tf32`), `fp8` (the products of blocks, with a scale a "
           "tensor, as Transformer Engine's and torchao's layers multiply: inputs, output "
           "gradients and weights "
           "are cast by kernels of their own, megatron's weights once a step; backward keeps "
           "inputs in one byte; "
           "attention and head stay in bf16), `mxfp8` (8 bits with a scale for 32 of them) or "
           "`nvfp4` (4 bits with a scale for 16 of them, and one a tensor): the same on Blackwell, "
           "cast by rows and by columns at once, with Transformer Engine's layers; the GPU must "
           "have it. PyTorch "
           "multiplied fp32 matrices in TF32 by default before 1.12: say `tf32` then",
       .default_value = "required"},
      {.key = "parameter_dtype",
       .type = Words<&Given::parameter_dtype, &Training::parameter_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "what a rank keeps: `fp32`, `bf16`, `fp16`",
       .default_value = "`precision`; `bf16` for `fp8`, `mxfp8` and `nvfp4`, `fp32` for `tf32`"},
      {.key = "master_weights",
       .type = Words<&Given::master_weights, &Training::master_weights, MasterWeights::kNone,
                     MasterWeights::kFp32, MasterWeights::kFp16Remainder>(),
       .uses = {},
       .shown = HasShortParameters,
       .values = "what the optimizer keeps beside parameters of 16 bits: `none` (it changes the "
                 "parameters themselves; not with `fp16`), `fp32` (a copy: 4 bytes a parameter), "
                 "`fp16_remainder` (the 16 bits that the copy has beyond a `bf16` parameter: 2 "
                 "bytes; Megatron-LM's precision-aware optimizer, Transformer Engine's FusedAdam). "
                 "deepspeed, megatron and nanotron always keep them; with ddp, fsdp1 and fsdp2 "
                 "they are those of an optimizer that is not PyTorch's own, such as "
                 "Apex's FusedAdam with `master_weights=True`",
       .default_value = "ddp, fsdp1 and fsdp2: `none`, as PyTorch's optimizers; with `lamb` and "
                        "for all others `fp32`; megatron with an `optimizer_state_dtype` of 16 "
                        "bits beside `bf16` parameters: `fp16_remainder`"},
      {.key = "optimizer_state_dtype",
       .type = Words<&Given::optimizer_state_dtype, &Training::optimizer_state_dtype,
                     DataType::kFp32, DataType::kBf16, DataType::kFp16>(),
       .uses = {},
       .values = "what the optimizer's moments are kept in: `fp32`, `bf16`, `fp16`. Others than "
                 "the default need a fused AdamW that has them: megatron's precision-aware "
                 "optimizer (stage 1), with ddp, fsdp1 and fsdp2 Apex's or Transformer Engine's "
                 "FusedAdam (`optimizer_implementation: fused`). With `adamw_8bit` it is that of "
                 "tensors too small for 8 bits",
       .default_value = "`fp32`; without master weights `parameter_dtype`, but with `lion`, "
                        "`adafactor` and bitsandbytes' `adamw_8bit` `fp32`"},
      {.key = "gradient_dtype",
       .type = Words<&Given::gradient_dtype, &Training::gradient_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "what gradients accumulate in: `fp32`, `bf16`, `fp16`; fsdp1 and fsdp2 always "
                 "take `parameter_dtype`",
       .default_value = "`parameter_dtype`"},
      {.key = "reduce_dtype",
       .type = Words<&Given::reduce_dtype, &Training::reduce_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "what is reduced on the wire: `fp32`, `bf16`, `fp16`",
       .default_value = "`parameter_dtype`; with fsdp1 and fsdp2 `precision` (`bf16` for `fp8`, "
                        "`fp32` for `tf32`)"},
      {.key = "optimizer",
       .type = Words<&Given::optimizer, &Training::optimizer, Optimizer::kAdamW, Optimizer::kSgd,
                     Optimizer::kLamb, Optimizer::kAdamW8bit, Optimizer::kLion,
                     Optimizer::kAdafactor, Optimizer::kMuon>(),
       .required = true,
       .uses = {},
       .values =
           "`adamw`, `sgd` (with momentum), `lamb` (Apex's FusedLAMB, which takes norms of whole "
           "tensors: ddp, and reference at stage 0; executions update by AdamW's arithmetic), "
           "`adamw_8bit` (moments in 8 bits: bitsandbytes' with ddp, fsdp1 and deepspeed, "
           "torchao's with fsdp2), `lion` (bitsandbytes': ddp, fsdp1), `adafactor` "
           "(transformers': ddp, fsdp1), `muon` (matrices of blocks by Newton-Schulz products, "
           "everything else by AdamW: torch.optim.Muon with ddp, Dion's with fsdp2, Megatron-LM's "
           "`--optimizer muon` with megatron at stage 0). The last four are forecast "
           "and not executed",
       .default_value = "required"},
      {.key = "optimizer_implementation",
       .type = Words<&Given::optimizer_implementation, &Training::optimizer_implementation,
                     OptimizerImplementation::kFused, OptimizerImplementation::kForeach,
                     OptimizerImplementation::kSingle>(),
       .uses = {},
       .shown = [](const Training& training) { return !HasOwnKernels(training.optimizer); },
       .values = "`fused` (one kernel) or `foreach` (a chain of kernels over all tensors, AdamW's "
                 "with one temporary for each tensor) or `single` (the chain for one tensor after "
                 "the other: `foreach=False`, Composer's DecoupledAdamW; ddp, fsdp1, fsdp2). "
                 "Tensors are those that the optimizer has: parameters; with fsdp2 the local parts "
                 "of them; with fsdp1 flat parameters, or with `use_orig_params` as much of the "
                 "original ones as a rank holds; with deepspeed one flat partition. With `muon` "
                 "this is AdamW's; `adamw_8bit`, `lion` and `adafactor` have their own kernels, "
                 "tensor by tensor",
       .default_value = "`fused` for reference, megatron and deepspeed; `single` for ddp and fsdp1 "
                        "before torch 2.0; else `foreach`; with `lamb` `fused`; with `adamw_8bit`, "
                        "`lion` and `adafactor` `single`"},
      {.key = "optimizer_in_backward",
       .type = Switch{&Given::optimizer_in_backward, &Training::optimizer_in_backward},
       .uses = {Of(Framework::kFsdp2)},
       .shown = [](const Training& training) { return training.optimizer_in_backward; },
       .values =
           "`true`: each parameter is updated in backward as soon as its gradient is reduced, "
           "and the gradient is freed then (torchtune's `optimizer_in_bwd`, torchtitan's "
           "`early_step_in_backward`); without clipping, accumulation and pipeline",
       .default_value = "`false`"},
      {.key = "activation_checkpointing",
       .type = Words<&Given::activation_checkpointing, &Training::activation_checkpointing,
                     model::Checkpointing::kNone, model::Checkpointing::kSelective,
                     model::Checkpointing::kSelectiveOp, model::Checkpointing::kFull>(),
       .uses = {},
       .of_architectures = true,
       .values = "`none`, `selective` (`recompute_modules` are recomputed), `selective_op` "
                 "(torchtitan's policy: the core and every second matrix product are kept), `full` "
                 "(only a block's input is kept)",
       .default_value = "`none`"},
      {.key = "recompute_modules",
       .type = OwnNotation<&Given::recompute_modules>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = IsSelective,
       .values =
           "modules of each block that `selective` recomputes, with spaces between or as a list: "
           "`core_attn`, `mlp` (the feed-forward, from its input), `layernorm` (both norms, "
           "whose outputs are not kept), `moe` (a mixture's layer, from its input), `moe_act` "
           "(its activations), `mla_up_proj` (queries, keys and values of latent attention, "
           "from their vectors): Megatron-LM's `--recompute-modules`",
       .default_value = "`core_attn`"},
      {.key = "checkpoint_early_stop",
       .type = Switch{&Given::checkpoint_early_stop, &Training::checkpoint_early_stop},
       .uses = {},
       .of_architectures = true,
       .shown = Recomputes,
       .values = "`true`: recomputation ends when all that backward needs is there, so a block's "
                 "last product does not run twice",
       .default_value = "`true` for ddp, fsdp1 and fsdp2 since torch 2.1, else, and with "
                        "`blocks_per_checkpoint`, `false`"},
      {.key = "checkpointed_blocks",
       .type = OwnNotation<&Given::checkpointed_blocks>(),
       .uses = {},
       .of_architectures = true,
       .shown = HasCheckpoints,
       .values =
           "which blocks that holds for: `all`, a part of them, evenly spaced: `1/2` is every "
           "second block, `2/3` two of three; or `first 4`, so many of each pipeline stage "
           "(Megatron-LM's `--recompute-method block`); the others keep everything",
       .default_value = "`all`"},
      {.key = "blocks_per_checkpoint",
       .type =
           Count{&Given::blocks_per_checkpoint, &Training::blocks_per_checkpoint, 1, kMostBlocks},
       .uses = {Of(Framework::kReference), Of(Framework::kDdp), Of(Framework::kDeepSpeed),
                Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = ChecksWholeBlocks,
       .values = "blocks under one checkpoint, from 1: the input of the first one is kept, and "
                 "backward runs all of them again before it comes to the last (Megatron-LM's "
                 "`--recompute-method uniform --recompute-num-layers`, PyTorch's "
                 "`checkpoint_sequential`); each pipeline stage begins a new one. The square root "
                 "of the number of blocks keeps least",
       .default_value = "1"},
      {.key = "attention",
       .type = Words<&Given::attention, &Training::attention, model::Attention::kFlash,
                     model::Attention::kFlash1, model::Attention::kFlash3, model::Attention::kCudnn,
                     model::Attention::kFlex, model::Attention::kMath, model::Attention::kMathFp32,
                     model::Attention::kFusedSoftmax>(),
       .uses = {},
       .of_architectures = true,
       .values =
           "`flash` (fused: FlashAttention-2, which on Blackwell reaches a quarter of the "
           "rate of `cudnn`), `flash1`, `flash3` (the other generations), `cudnn` "
           "(cuDNN's for Hopper and Blackwell; where the profile does not know it, as "
           "`flash`), `flex` (PyTorch's FlexAttention; where the profile does not know it, at "
           "0.9 of the rate of `flash` forward and 0.85 backward), `math` (score matrix in memory; "
           "mask and softmax are kernels "
           "of their own), `math_fp32` (the softmax in FP32, whose result is kept and cast, "
           "as Hugging Face's `eager`; `math` under autocast is the same) or `fused_softmax` "
           "(mask and softmax are one kernel, as in Megatron-LM; where a rank's heads times "
           "the micro-batch are no multiple of 4, or the sequence is longer than 4096, "
           "Megatron-LM casts, scales and masks in kernels of their own)",
       .default_value =
           "what runs: `cudnn` of ddp, fsdp1 and fsdp2 from torch 2.11 on, on Hopper and "
           "Blackwell, without `document_length`; of megatron on Blackwell; else `flash`. "
           "torchtitan's GPT-OSS, DeepSeek-V3 and Llama 4 (fsdp2): `flex`. Other models with "
           "attention sinks: `cudnn` of megatron from torch 2.11 on, else `math`"},
      {.key = "compile",
       .type = Switch{&Given::compile, &Training::compile},
       .uses = {},
       .of_architectures = true,
       .values = "`true`: memory-bound kernels of a block are fused as torch.compile does",
       .default_value = "`false`"},
      {.key = "loss",
       .type = Words<&Given::loss, &Training::loss, model::Loss::kEager, model::Loss::kInPlace,
                     model::Loss::kFused, model::Loss::kHuggingFace, model::Loss::kChunked,
                     model::Loss::kCut>(),
       .uses = {},
       .of_architectures = true,
       .values =
           "cross entropy: `eager` (FP32 copies of the logits in memory), `huggingface` (the same, "
           "and the FP32 logits that the model returned stay until the end of backward: "
           "transformers before 4.45, loops that hold the model's output), `in_place` "
           "(Megatron-LM's: one FP32 copy, worked on where it lies), `fused` (one kernel over all "
           "logits: Liger's `LigerCrossEntropyLoss`, torch.compile of the loss), `chunked` (the "
           "head's product and the loss for `loss_chunk` tokens at a time, with their gradients: "
           "Liger's fused linear cross entropy, torchtitan's ChunkedCELoss, TRL's `chunked_nll`) "
           "or "
           "`cut` (cut cross entropy: no logits in memory, and backward makes them again). The "
           "last "
           "two are for decoders whose vocabulary is not divided among ranks",
       .default_value = "`eager`, also with `compile`, which is of blocks; megatron: `in_place`"},
      {.key = "loss_chunk",
       .type = Count{&Given::loss_chunk, &Training::loss_chunk, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.loss_chunk > 0; },
       .values = "with `loss: chunked`, tokens of a rank whose logits exist at a time",
       .default_value = "as Liger: the next power of two above the rank's tokens over "
                        "`vocab_size / hidden_size`"},
      {.key = "norm",
       .type = Words<&Given::norm, &Training::norm, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .values = "whose kernels compute norms: `fused` (one kernel: PyTorch's since 2.9, Liger's), "
                 "`eager` and `huggingface` (an RMSNorm operation by operation in FP32: 36 bytes "
                 "an element instead of 4, and 6 instead of 2 kept; layer norms are one kernel), "
                 "`compiled` (one kernel with the residual before it; also flash-attn's "
                 "`dropout_add_layer_norm`), `apex`, `transformer_engine` (one kernel; gradients "
                 "of layer norms' weights are added up in two stages, bounded by bandwidth, where "
                 "PyTorch's kernel walks all tokens, `kernels.token_sum_time`)",
       .default_value = "`compiled` with `compile`; `apex` for megatron; `fused` for "
                        "reference; else `eager` with PyTorch before 2.9, "
                        "then `fused`"},
      {.key = "rotary",
       .type = Words<&Given::rotary, &Training::rotary, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .had_by = HasRotaryPositions,
       .needed = "rotary positions",
       .values = "whose kernels turn queries and keys: `eager` (complex numbers in FP32, as "
                 "torchtitan and Meta's Llama: 20 bytes an element instead of 4), `huggingface` "
                 "(halves in 16 bits: 20), the other words as above (one kernel)",
       .default_value = "`compiled` with `compile`; `apex` for megatron; `fused` for "
                        "reference; else `eager`"},
      {.key = "activation_function",
       .type =
           Words<&Given::activation_function, &Training::activation_function,
                 model::Implementation::kEager, model::Implementation::kFused,
                 model::Implementation::kCompiled, model::Implementation::kApex,
                 model::Implementation::kTransformerEngine, model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .values = "whose kernels compute GELU or SwiGLU: `eager` (GELU is one kernel; SiLU and its "
                 "product are two, and SiLU's result is kept), `huggingface` (GPT-2's NewGELU: "
                 "eight kernels, 36 bytes an element instead of 4, and 8 instead of 2 kept; SwiGLU "
                 "as `eager`), the other words as above (one kernel)",
       .default_value = "`compiled` with `compile`; `fused` for megatron; else `eager`"},
      {.key = "repeat_kv",
       .type = Switch{&Given::repeat_kv, &Training::repeat_kv},
       .uses = {},
       .of_architectures = true,
       .had_by = HasGroupedQueries,
       .needed = "grouped queries",
       .values = "`true`: models with grouped queries copy keys and values for every head before "
                 "`flash` attention, and keep the copies (`repeat_kv` of torchtitan, Meta's Llama "
                 "and Hugging Face); `math` does so in any case",
       .default_value = "`true` where `rotary` is `eager` or `huggingface`"},
      {.key = "sinks_fallback",
       .type = Switch{&Given::sinks_fallback, &Training::sinks_fallback},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = HasSinks,
       .needed = "attention sinks",
       .shown = [](const Training& training) { return training.sinks_fallback; },
       .values =
           "`true`: `cudnn`'s attention with sinks runs at 0.18 of its rate, as Transformer "
           "Engine's does that falls back to other kernels (NVIDIA's containers up to 26.06)",
       .default_value = "`false`"},
      {.key = "masked_tokens",
       .type = Count{&Given::masked_tokens, &Training::masked_tokens, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Gathers,
       .values = "encoders: tokens of a sequence that the head predicts, which are gathered before "
                 "it (20 of 128, 80 of 512 in NVIDIA/DeepLearningExamples)",
       .default_value = "the head computes all tokens (Hugging Face, Megatron-LM)"},
      {.key = "document_length",
       .type = Count{&Given::document_length, &Training::document_length, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = PacksAlike,
       .values =
           "tokens of a document: so many that they fill `sequence_length` are packed into each "
           "sequence, and attention stays within each (FlashAttention of varying lengths, as "
           "fine-tuning with packed sequences in NeMo has it); not with `attention: math` and "
           "`fused_softmax`, which compute all scores and mask. Short for `lengths` of one length "
           "that are packed",
       .default_value = "each sequence is one document, or its mask does not matter to kernels"},
      {.key = "lengths",
       .type = OwnNotation<&Given::lengths>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = HasLengths,
       .values = "a mapping, below: how long samples are, and whether they are packed, padded or "
                 "batched by length",
       .default_value = "every sample has `sequence_length` tokens"},
      {.key = "fp8_scaling",
       .type = Words<&Given::fp8_scaling, &Training::fp8_scaling, model::Fp8Scaling::kDelayed,
                     model::Fp8Scaling::kCurrent, model::Fp8Scaling::kTorchao,
                     model::Fp8Scaling::kTorchaoRowwise>(),
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.precision == DataType::kFp8; },
       .values =
           "with `precision: fp8`, whose layers cast, and where a tensor's scale comes from: "
           "`delayed` (Transformer Engine, the steps before: one pass, and behind a micro-batch's "
           "blocks the ranks of a stage agree on the largest numbers), `current` (Transformer "
           "Engine, the tensor itself, which is read once more; the ranks of sequence parallelism "
           "agree before they cast what is gathered), `torchao` (the same, and what "
           "gradients of weights read is transposed by kernels of its own; with sequence "
           "parallelism gathered in 8 bits), `torchao_rowwise` (a scale a row; inputs are kept and "
           "gathered in 16 bits, and what backward's products give is scaled by another kernel)",
       .default_value = "`torchao` with fsdp2, else `delayed`"},
      {.key = "tensor_overlap",
       .type = Words<&Given::tensor_overlap, &Training::tensor_overlap, model::TensorOverlap::kNone,
                     model::TensorOverlap::kUserBuffers, model::TensorOverlap::kAsync>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kFsdp2)},
       .of_architectures = true,
       .shown =
           [](const Training& training) {
             return training.tensor_overlap != model::TensorOverlap::kNone;
           },
       .values =
           "how products of blocks and the collectives of tensor parallelism overlap, with "
           "sequence "
           "parallelism: `none` (as streams beside each other do), `user_buffers` (megatron with "
           "Transformer Engine, `--tp-comm-overlap`: all-gathers as a ring exchange by copy "
           "engines, a piece of the product for each rank's part; reduce-scatters in 4 pieces, on "
           "16 multiprocessors; what no product waits for on 16, too; buffers that are set up "
           "once), `async` (fsdp2 with `compile`: PyTorch's asynchronous tensor parallelism, "
           "torchtitan's `enable_async_tensor_parallel`: pieces that copy engines move straight to "
           "where they are needed)",
       .default_value = "`none`"},
      {.key = "tp_only_amax_red",
       .type = Switch{&Given::tp_only_amax_red, &Training::tp_only_amax_red},
       .uses = {Of(Framework::kMegatron, "with `fp8_scaling: delayed`")},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.tp_only_amax_red; },
       .values =
           "Megatron-Core's: `true`: on the scales of FP8 the ranks agree that divide layers, "
           "not all of a stage",
       .default_value = "`false`"},
      {.key = "async_tensor_model_parallel_allreduce",
       .type = Switch{&Given::async_tensor_model_parallel_allreduce,
                      &Training::async_tensor_model_parallel_allreduce},
       .uses = {Of(Framework::kMegatron, "with tensor parallelism")},
       .of_architectures = true,
       .shown =
           [](const Training& training) { return !training.async_tensor_model_parallel_allreduce; },
       .values = "`true`: without sequence parallelism, backward adds up the gradients of a linear "
                 "layer's input beside the product of its weight's; `false`: behind it, as before "
                 "October 2021 and in Megatron-DeepSpeed",
       .default_value = "`true`"},
      {.key = "make_vocab_size_divisible_by",
       .type = Count{&Given::make_vocab_size_divisible_by, &Training::make_vocab_size_divisible_by,
                     1, kMostTokens},
       .of_task = true,
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown =
           [](const Training& training) { return training.make_vocab_size_divisible_by != 128; },
       .values =
           "a rank's part of the vocabulary is filled up to a multiple of it, from 1: rows of "
           "the head's products then stay aligned",
       .default_value = "`128`"},
      {.key = "lora",
       .type = OwnNotation<&Given::lora>(),
       .of_task = true,
       .uses = {Of(Framework::kReference, "stages 0 to 2"), Of(Framework::kDdp),
                Of(Framework::kFsdp1), Of(Framework::kFsdp2), Of(Framework::kMegatron),
                Of(Framework::kDeepSpeed, "stages 0 to 2")},
       .of_architectures = true,
       .shown = Adapts,
       .values = "a mapping, below: adapters of low rank are trained, all else is frozen; with "
                 "fsdp1 the adapters of a unit are a flat parameter of their own, as PEFT's wrap "
                 "policy keeps them from frozen ones",
       .default_value = "all parameters are trained"},
      {.key = "frozen_dtype",
       .type = OwnNotation<&Given::frozen_dtype>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Adapts,
       .values = "with `lora`, what frozen parameters are kept in: `fp32`, `bf16`, `fp16`, or, "
                 "with `precision: fp8`, `fp8` (the matrices of blocks: one byte an element, and "
                 "no casts; NeMo's `fp8_params`)",
       .default_value = "`precision`; `bf16` for `fp8`, `fp32` for `tf32`"},
      {.key = "activation_offload",
       .type = Switch{&Given::activation_offload, &Training::activation_offload},
       .uses = {},
       .values =
           "`true`: what blocks keep for backward is copied to the host's memory, beside the next "
           "block's kernels, and back beside the backward of the block after; needs `node.host`",
       .default_value = "`false`"},
      {.key = "host_waits",
       .type = Words<&Given::host_waits, &Training::host_waits, HostWaits::kNever, HostWaits::kStep,
                     HostWaits::kUpdate, HostWaits::kMicroBatch, HostWaits::kPhase,
                     HostWaits::kLaunch>(),
       .of_task = true,
       .uses = {},
       .idle = WhyNoHostWaits,
       .values =
           "where the training loop reads a value from the device, and the host waits until the "
           "compute stream is done: `never`, `step` (at its end: the loss), `update` (before each: "
           "the norm of the gradients), `micro_batch` (after each backward); `phase`: after every "
           "forward, every backward and the update, until all streams are done, as timers do that "
           "synchronise (DeepSpeed's `wall_clock_breakdown`, Megatron-LM before 3.0). Buffers that "
           "other streams use are then free before more are asked for. `launch`: after every "
           "kernel, "
           "copy and collective (`CUDA_LAUNCH_BLOCKING=1`): nothing overlaps, and what issuing "
           "takes "
           "is never hidden",
       .default_value = "`never`"},
      {.key = "gradient_clipping",
       .type = OwnNotation<&Given::gradient_clipping>(),
       .of_task = true,
       .uses = {},
       .values = "the largest norm of all gradients together, such as `1.0`, or `none`",
       .default_value = "`none`"},
      {.key = "deterministic",
       .type = Switch{&Given::deterministic, &Training::deterministic},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.deterministic; },
       .values = "`true`: `torch.use_deterministic_algorithms`, Megatron-LM's "
                 "`--deterministic-mode`: cuBLAS's "
                 "workspaces have 32 MiB (`CUBLAS_WORKSPACE_CONFIG=:4096:8`); which attention runs "
                 "then is "
                 "`attention`",
       .default_value = "`false`"},
      {.key = "data_loading",
       .type = OwnNotation<&Given::data_loading>(),
       .of_task = true,
       .uses = {},
       .values = "a mapping, below",
       .default_value = "micro-batches are there when they are needed"},
      {.key = "checkpoint_saving",
       .type = OwnNotation<&Given::checkpoint_saving>(),
       .of_task = true,
       .uses = {},
       .values = "a mapping, below",
       .default_value = "none is saved"},
      {.key = "step_barrier",
       .type = Switch{&Given::step_barrier, &Training::step_barrier},
       .of_task = true,
       .uses = {},
       .idle = WhyNoStepBarrier,
       .values =
           "`true`: measure one step between barriers instead of the steady interval between steps",
       .default_value = "`false`"},
      {.key = "dispatch",
       .type = OwnNotation<&Given::dispatch>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .values = "host time of eager execution before a kernel is launched: `{module: TIME, "
                 "autograd: TIME}`, for kernels that a module's code issues (forward, and where it "
                 "is run again) and for those of autograd; compiled blocks take none",
       .default_value = "the profile's `host.dispatch` of the framework, else, by framework, those "
                        "of the profile's `frameworks`"},
  };
}

}  // namespace

std::span<const TrainingSetting> TrainingSettings() {
  static const std::vector<TrainingSetting> rows = Rows();
  return rows;
}

}  // namespace stepcast::plan
