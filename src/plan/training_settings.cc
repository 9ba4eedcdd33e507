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
             ? "has no effect with framework deepspeed at stage 3, because the host always waits"
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
       .uses = {},
       .values = "the number of tokens per sequence, at least 1. If the model has learned position "
                 "embeddings, the value is at most the number of positions",
       .default_value = "required"},
      {.key = "micro_batch_size",
       .type = Count{&Given::micro_batch_size, &Training::micro_batch_size, 1, kMostSequences, 1},
       .required = true,
       .uses = {},
       .values = "the number of sequences that a GPU processes in one forward and backward (mbs)",
       .default_value = "required"},
      {.key = "gradient_accumulation",
       .type = Count{&Given::gradient_accumulation, &Training::gradient_accumulation, 1,
                     kMostSequences, 1},
       .of_task = true,
       .uses = {},
       .values = "the number of micro-batches per step (grad_acc)",
       .default_value = "computed from `global_batch_size`. Exactly one of `gradient_accumulation` "
                        "and `global_batch_size` is required"},
      {.key = "global_batch_size",
       .type = OwnNotation<&Given::global_batch_size>(),
       .of_task = true,
       .uses = {},
       .values =
           "the number of sequences per step: `micro_batch_size` x `gradient_accumulation` x the "
           "number of data-parallel ranks",
       .default_value = "computed from `gradient_accumulation`. Exactly one of "
                        "`gradient_accumulation` and `global_batch_size` is required"},
      {.key = "precision",
       .type = Words<&Given::precision, &Training::precision, DataType::kBf16, DataType::kFp16,
                     DataType::kFp32, DataType::kTf32, DataType::kFp8, DataType::kMxfp8,
                     DataType::kNvfp4>(),
       .required = true,
       .uses = {},
       .values = "the data type of computation: `bf16`, `fp16`, `fp32`, `tf32`, `fp8`, `mxfp8` or "
                 "`nvfp4`, explained below. The GPU must support the type",
       .default_value = "required"},
      {.key = "parameter_dtype",
       .type = Words<&Given::parameter_dtype, &Training::parameter_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "the data type in which a rank stores parameters: `fp32`, `bf16`, `fp16`",
       .default_value = "`bf16` if `precision` is `fp8`, `mxfp8` or `nvfp4`. `fp32` if `precision` "
                        "is `tf32`. Otherwise: the same as `precision`"},
      {.key = "master_weights",
       .type = Words<&Given::master_weights, &Training::master_weights, MasterWeights::kNone,
                     MasterWeights::kFp32, MasterWeights::kFp16Remainder>(),
       .uses = {},
       .shown = HasShortParameters,
       .values = "the master weights that the optimizer keeps for 16-bit parameters: `none`, "
                 "`fp32` or `fp16_remainder`, explained below. deepspeed, megatron and nanotron "
                 "always keep master weights",
       .default_value = "ddp, fsdp1 and fsdp2 without `lamb`: `none`, as in PyTorch's optimizers. "
                        "megatron with a 16-bit `optimizer_state_dtype` and `bf16` parameters: "
                        "`fp16_remainder`. Otherwise: `fp32`"},
      {.key = "optimizer_state_dtype",
       .type = Words<&Given::optimizer_state_dtype, &Training::optimizer_state_dtype,
                     DataType::kFp32, DataType::kBf16, DataType::kFp16>(),
       .uses = {},
       .values =
           "the data type of the optimizer's moments: `fp32`, `bf16`, `fp16`. Types other than "
           "the default need a fused AdamW. With megatron at stage 1, the fused AdamW is the "
           "precision-aware optimizer. With ddp, fsdp1 and fsdp2, the fused AdamW is the "
           "FusedAdam of Apex or Transformer Engine (`optimizer_implementation: fused`). With "
           "`adamw_8bit`, the key sets the type for tensors that are too small for 8-bit states",
       .default_value = "with master weights, or with `lion` or `adafactor`: `fp32`. With "
                        "`adamw_8bit`: `fp32`, except for fsdp2 without master weights. "
                        "Otherwise: `parameter_dtype`"},
      {.key = "gradient_dtype",
       .type = Words<&Given::gradient_dtype, &Training::gradient_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "the data type in which gradients accumulate: `fp32`, `bf16`, `fp16`; fsdp1 and "
                 "fsdp2 always use `parameter_dtype`",
       .default_value = "`parameter_dtype`"},
      {.key = "reduce_dtype",
       .type = Words<&Given::reduce_dtype, &Training::reduce_dtype, DataType::kFp32,
                     DataType::kBf16, DataType::kFp16>(),
       .of_task = true,
       .uses = {},
       .values = "the data type in which gradients are sent and reduced: `fp32`, `bf16`, `fp16`",
       .default_value = "frameworks other than fsdp1 and fsdp2: `parameter_dtype`. fsdp1 and "
                        "fsdp2: `bf16` if `precision` is `fp8`, `fp32` if `precision` is `tf32`, "
                        "otherwise the same as `precision`"},
      {.key = "optimizer",
       .type = Words<&Given::optimizer, &Training::optimizer, Optimizer::kAdamW, Optimizer::kSgd,
                     Optimizer::kLamb, Optimizer::kAdamW8bit, Optimizer::kLion,
                     Optimizer::kAdafactor, Optimizer::kMuon>(),
       .required = true,
       .uses = {},
       .values = "`adamw`, `sgd` (with momentum), `lamb`, `adamw_8bit`, `lion`, `adafactor` or "
                 "`muon`, explained below. stepcast can forecast but not execute `adamw_8bit`, "
                 "`lion`, `adafactor` and `muon`",
       .default_value = "required"},
      {.key = "optimizer_implementation",
       .type = Words<&Given::optimizer_implementation, &Training::optimizer_implementation,
                     OptimizerImplementation::kFused, OptimizerImplementation::kForeach,
                     OptimizerImplementation::kSingle>(),
       .uses = {},
       .shown = [](const Training& training) { return !HasOwnKernels(training.optimizer); },
       .values = "`fused` (one kernel), `foreach` (a chain of kernels over all tensors) or "
                 "`single` (the same chain, run separately for each tensor), explained below",
       .default_value = "with `lamb`: `fused`. With `adamw_8bit`, `lion` and `adafactor`: "
                        "`single`. With other optimizers: `fused` for reference, megatron and "
                        "deepspeed; `single` for ddp and fsdp1 before torch 2.0; otherwise "
                        "`foreach`"},
      {.key = "optimizer_in_backward",
       .type = Switch{&Given::optimizer_in_backward, &Training::optimizer_in_backward},
       .uses = {Of(Framework::kFsdp2)},
       .shown = [](const Training& training) { return training.optimizer_in_backward; },
       .values =
           "`true`: backward updates each parameter as soon as its gradient is reduced, then frees "
           "the gradient (torchtune's `optimizer_in_bwd`, torchtitan's `early_step_in_backward`). "
           "Not allowed with gradient clipping, gradient accumulation or a pipeline",
       .default_value = "`false`"},
      {.key = "activation_checkpointing",
       .type = Words<&Given::activation_checkpointing, &Training::activation_checkpointing,
                     model::Checkpointing::kNone, model::Checkpointing::kSelective,
                     model::Checkpointing::kSelectiveOp, model::Checkpointing::kFull>(),
       .uses = {},
       .of_architectures = true,
       .values =
           "`none`: all activations are kept. `selective`: the modules in `recompute_modules` are "
           "recomputed. `selective_op`: torchtitan's policy, which keeps the results of attention "
           "and of every second matrix multiplication. `full`: only the input of a block is kept",
       .default_value = "`none`"},
      {.key = "recompute_modules",
       .type = OwnNotation<&Given::recompute_modules>(),
       .uses = {Of(Framework::kReference), Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = IsSelective,
       .values =
           "the modules of each block that `selective` recomputes, separated by spaces or as a "
           "list (Megatron-LM's `--recompute-modules`). `core_attn`: scores, softmax and "
           "multiplication by the values. `mlp`: the complete feed-forward layer; only its input "
           "is "
           "kept. `layernorm`: both norms of a block; their outputs are not kept. `moe`: the "
           "complete "
           "layer of experts; only its input is kept. `moe_act`: the activations of experts. "
           "`mla_up_proj`: "
           "queries, keys and values of latent attention, from the latent vectors",
       .default_value = "`core_attn`"},
      {.key = "checkpoint_early_stop",
       .type = Switch{&Given::checkpoint_early_stop, &Training::checkpoint_early_stop},
       .uses = {},
       .of_architectures = true,
       .shown = Recomputes,
       .values = "`true`: recomputation ends as soon as backward has all values that it needs, so "
                 "the last matrix multiplication of a block does not run twice",
       .default_value = "`true` for ddp, fsdp1 and fsdp2 from torch 2.1 on, if "
                        "`blocks_per_checkpoint` is 1; otherwise `false`"},
      {.key = "checkpointed_blocks",
       .type = OwnNotation<&Given::checkpointed_blocks>(),
       .uses = {},
       .of_architectures = true,
       .shown = HasCheckpoints,
       .values =
           "the blocks that are checkpointed; other blocks keep all activations. `all`: all "
           "blocks. `1/2`: every second block. `2/3`: two of three blocks, evenly spaced. `first "
           "4`: the first 4 blocks of each pipeline stage (Megatron-LM's `--recompute-method "
           "block`)",
       .default_value = "`all`"},
      {.key = "blocks_per_checkpoint",
       .type =
           Count{&Given::blocks_per_checkpoint, &Training::blocks_per_checkpoint, 1, kMostBlocks},
       .uses = {Of(Framework::kReference), Of(Framework::kDdp), Of(Framework::kDeepSpeed),
                Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown = ChecksWholeBlocks,
       .values = "the number of blocks under one checkpoint, at least 1. A checkpoint keeps only "
                 "the input of its first block, and backward first runs all blocks of the "
                 "checkpoint again (Megatron-LM's `--recompute-method uniform "
                 "--recompute-num-layers`, PyTorch's `checkpoint_sequential`). Each pipeline stage "
                 "begins a new checkpoint. A value near the square root of the number of all "
                 "blocks needs the least memory",
       .default_value = "1"},
      {.key = "attention",
       .type = Words<&Given::attention, &Training::attention, model::Attention::kFlash,
                     model::Attention::kFlash1, model::Attention::kFlash3, model::Attention::kCudnn,
                     model::Attention::kFlex, model::Attention::kMath, model::Attention::kMathFp32,
                     model::Attention::kFusedSoftmax>(),
       .uses = {},
       .of_architectures = true,
       .values = "the attention kernels: `flash`, `flash1`, `flash3`, `cudnn`, `flex`, `math`, "
                 "`math_fp32` or `fused_softmax`, explained below",
       .default_value = "depends on the framework, the model and the GPU, as explained below"},
      {.key = "compile",
       .type = Switch{&Given::compile, &Training::compile},
       .uses = {},
       .of_architectures = true,
       .values = "`true`: torch.compile fuses the memory-bound kernels of each block",
       .default_value = "`false`"},
      {.key = "loss",
       .type = Words<&Given::loss, &Training::loss, model::Loss::kEager, model::Loss::kInPlace,
                     model::Loss::kFused, model::Loss::kHuggingFace, model::Loss::kChunked,
                     model::Loss::kCut>(),
       .uses = {},
       .of_architectures = true,
       .values = "the cross entropy: `eager`, `huggingface`, `in_place`, `fused`, `chunked` or "
                 "`cut`, explained below",
       .default_value = "`in_place` for megatron; otherwise `eager`, also with `compile`, because "
                        "only blocks are compiled"},
      {.key = "loss_chunk",
       .type = Count{&Given::loss_chunk, &Training::loss_chunk, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.loss_chunk > 0; },
       .values = "with `loss: chunked`: the number of tokens in a chunk. The logits of only one "
                 "chunk are in memory at the same time",
       .default_value = "the number of tokens of a rank, divided by `vocab_size / hidden_size` and "
                        "rounded up to a power of two, as in Liger"},
      {.key = "norm",
       .type = Words<&Given::norm, &Training::norm, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .values = "the kernels that compute norms: `fused`, `eager`, `huggingface`, `compiled`, "
                 "`apex` or `transformer_engine`, explained below",
       .default_value = "`compiled` with `compile`. Otherwise `apex` for megatron and `fused` for "
                        "reference. For other frameworks, `eager` with PyTorch before 2.9, and "
                        "`fused` from 2.9 on"},
      {.key = "rotary",
       .type = Words<&Given::rotary, &Training::rotary, model::Implementation::kEager,
                     model::Implementation::kFused, model::Implementation::kCompiled,
                     model::Implementation::kApex, model::Implementation::kTransformerEngine,
                     model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .had_by = HasRotaryPositions,
       .needed = "rotary positions",
       .values = "the kernels that rotate queries and keys (rotary positions): the same values as "
                 "for `norm`, explained below",
       .default_value = "`compiled` with `compile`; `apex` for megatron; `fused` for reference; "
                        "otherwise `eager`"},
      {.key = "activation_function",
       .type =
           Words<&Given::activation_function, &Training::activation_function,
                 model::Implementation::kEager, model::Implementation::kFused,
                 model::Implementation::kCompiled, model::Implementation::kApex,
                 model::Implementation::kTransformerEngine, model::Implementation::kHuggingFace>(),
       .uses = {},
       .of_architectures = true,
       .values = "the kernels that compute GELU or SwiGLU: the same values as for `norm`, "
                 "explained below",
       .default_value = "`compiled` with `compile`; `fused` for megatron; otherwise `eager`"},
      {.key = "repeat_kv",
       .type = Switch{&Given::repeat_kv, &Training::repeat_kv},
       .uses = {},
       .of_architectures = true,
       .had_by = HasGroupedQueries,
       .needed = "grouped queries",
       .values = "`true`: models with grouped queries copy keys and values for every query head "
                 "before `flash` attention, and keep the copies (`repeat_kv` of torchtitan, Meta's "
                 "Llama and Hugging Face). `attention: math` always makes such copies",
       .default_value = "`true` if `rotary` is `eager` or `huggingface`"},
      {.key = "sinks_fallback",
       .type = Switch{&Given::sinks_fallback, &Training::sinks_fallback},
       .uses = {Of(Framework::kMegatron), TakenByReference()},
       .of_architectures = true,
       .had_by = HasSinks,
       .needed = "attention sinks",
       .shown = [](const Training& training) { return training.sinks_fallback; },
       .values = "`true`: with attention sinks, `attention: cudnn` runs at only 18 % of its usual "
                 "rate. In NVIDIA's containers up to 26.06, Transformer Engine uses slow kernels "
                 "for attention sinks",
       .default_value = "`false`"},
      {.key = "masked_tokens",
       .type = Count{&Given::masked_tokens, &Training::masked_tokens, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Gathers,
       .values = "for encoders: the number of tokens per sequence that the head predicts. The head "
                 "then computes only the rows of these tokens. NVIDIA/DeepLearningExamples "
                 "predicts 20 of 128 tokens, or 80 of 512",
       .default_value = "the head computes the rows of all tokens (Hugging Face, Megatron-LM)"},
      {.key = "document_length",
       .type = Count{&Given::document_length, &Training::document_length, 1, kMostTokens},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = PacksAlike,
       .values = "the number of tokens in a document. Documents of this length are packed to fill "
                 "each sequence, and attention stays within a document (FlashAttention for varying "
                 "lengths, as in NeMo's fine-tuning with packed sequences). Not allowed with "
                 "`attention: math` and `fused_softmax`, because their kernels compute and mask "
                 "all scores. The key is shorthand for packed `lengths` with one length",
       .default_value = "not set: each sequence is one document, or attention has no mask between "
                        "documents"},
      {.key = "lengths",
       .type = OwnNotation<&Given::lengths>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = HasLengths,
       .values = "a mapping, described below: the lengths of samples, and whether samples are "
                 "packed, padded or batched by length",
       .default_value = "every sample has `sequence_length` tokens"},
      {.key = "fp8_scaling",
       .type = Words<&Given::fp8_scaling, &Training::fp8_scaling, model::Fp8Scaling::kDelayed,
                     model::Fp8Scaling::kCurrent, model::Fp8Scaling::kTorchao,
                     model::Fp8Scaling::kTorchaoRowwise>(),
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.precision == DataType::kFp8; },
       .values = "with `precision: fp8`: `delayed`, `current`, `torchao` or `torchao_rowwise`, "
                 "explained below. The value selects the library that casts to FP8 and the rule "
                 "that computes a tensor's scale",
       .default_value = "`torchao` with fsdp2, otherwise `delayed`"},
      {.key = "tensor_overlap",
       .type = Words<&Given::tensor_overlap, &Training::tensor_overlap, model::TensorOverlap::kNone,
                     model::TensorOverlap::kUserBuffers, model::TensorOverlap::kAsync>(),
       .uses = {Of(Framework::kMegatron), Of(Framework::kFsdp2)},
       .of_architectures = true,
       .shown =
           [](const Training& training) {
             return training.tensor_overlap != model::TensorOverlap::kNone;
           },
       .values = "how matrix multiplications of blocks overlap with the collectives of tensor and "
                 "sequence parallelism: `none`, `user_buffers` (megatron) or `async` (fsdp2 with "
                 "`compile`), explained below",
       .default_value = "`none`"},
      {.key = "tp_only_amax_red",
       .type = Switch{&Given::tp_only_amax_red, &Training::tp_only_amax_red},
       .uses = {Of(Framework::kMegatron, "with `fp8_scaling: delayed`")},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.tp_only_amax_red; },
       .values =
           "`true`: only the tensor-parallel ranks agree on FP8 scales. `false`: all ranks of a "
           "pipeline stage agree on FP8 scales (Megatron-Core's setting of the same name)",
       .default_value = "`false`"},
      {.key = "async_tensor_model_parallel_allreduce",
       .type = Switch{&Given::async_tensor_model_parallel_allreduce,
                      &Training::async_tensor_model_parallel_allreduce},
       .uses = {Of(Framework::kMegatron, "with tensor parallelism")},
       .of_architectures = true,
       .shown =
           [](const Training& training) { return !training.async_tensor_model_parallel_allreduce; },
       .values = "without sequence parallelism, backward sums the gradients of a linear layer's "
                 "input over the tensor-parallel ranks. `true`: the sum runs while the weight "
                 "gradient is computed. `false`: the sum runs after the weight gradient, as in "
                 "Megatron-LM before October 2021 and in Megatron-DeepSpeed",
       .default_value = "`true`"},
      {.key = "make_vocab_size_divisible_by",
       .type = Count{&Given::make_vocab_size_divisible_by, &Training::make_vocab_size_divisible_by,
                     1, kMostTokens},
       .uses = {Of(Framework::kMegatron)},
       .of_architectures = true,
       .shown =
           [](const Training& training) { return training.make_vocab_size_divisible_by != 128; },
       .values = "the vocabulary is padded so that each rank's part is a multiple of this number "
                 "(at least 1). The rows of the logits are then aligned in memory",
       .default_value = "`128`"},
      {.key = "lora",
       .type = OwnNotation<&Given::lora>(),
       .of_task = true,
       .uses = {Of(Framework::kReference, "stages 0 to 2"), Of(Framework::kDdp),
                Of(Framework::kFsdp1), Of(Framework::kFsdp2), Of(Framework::kMegatron),
                Of(Framework::kDeepSpeed, "stages 0 to 2")},
       .of_architectures = true,
       .shown = Adapts,
       .values = "a mapping, described below: only low-rank adapters are trained, and all other "
                 "parameters are frozen. With fsdp1, the adapters of a unit form a separate flat "
                 "parameter, because PEFT's wrap policy separates adapters from frozen parameters",
       .default_value = "all parameters are trained"},
      {.key = "frozen_dtype",
       .type = OwnNotation<&Given::frozen_dtype>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = Adapts,
       .values = "with `lora`: the data type of frozen parameters. Values: `fp32`, `bf16`, "
                 "`fp16`, and `fp8` if `precision` is `fp8`. With `fp8`, matrices of blocks take "
                 "one byte per element and need no casts (NeMo's `fp8_params`)",
       .default_value =
           "`bf16` if `precision` is `fp8`. `fp32` if `precision` is `tf32`. Otherwise: the same "
           "as `precision`"},
      {.key = "activation_offload",
       .type = Switch{&Given::activation_offload, &Training::activation_offload},
       .uses = {},
       .values = "`true`: the activations of a block are copied to host memory while the next "
                 "block runs. The activations are copied back during the backward of the next "
                 "block. The topology must have `node.host`",
       .default_value = "`false`"},
      {.key = "host_waits",
       .type = Words<&Given::host_waits, &Training::host_waits, HostWaits::kNever, HostWaits::kStep,
                     HostWaits::kUpdate, HostWaits::kMicroBatch, HostWaits::kPhase,
                     HostWaits::kLaunch>(),
       .of_task = true,
       .uses = {},
       .idle = WhyNoHostWaits,
       .values = "the points at which the host waits for the device, because the training loop "
                 "reads a value: `never`, `step`, `update`, `micro_batch`, `phase` or `launch`, "
                 "explained below",
       .default_value = "`never`"},
      {.key = "gradient_clipping",
       .type = OwnNotation<&Given::gradient_clipping>(),
       .of_task = true,
       .uses = {},
       .values = "the maximum norm of all gradients together, for example `1.0`, or `none`",
       .default_value = "`none`"},
      {.key = "deterministic",
       .type = Switch{&Given::deterministic, &Training::deterministic},
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .shown = [](const Training& training) { return training.deterministic; },
       .values =
           "`true`: the run uses `torch.use_deterministic_algorithms` or Megatron-LM's "
           "`--deterministic-mode`. cuBLAS's workspaces have 32 MiB "
           "(`CUBLAS_WORKSPACE_CONFIG=:4096:8`). The key `attention` still selects the attention "
           "kernels",
       .default_value = "`false`"},
      {.key = "data_loading",
       .type = OwnNotation<&Given::data_loading>(),
       .of_task = true,
       .uses = {},
       .values = "a mapping, described below: the time and the processes that load data",
       .default_value = "not set: no step waits for data"},
      {.key = "checkpoint_saving",
       .type = OwnNotation<&Given::checkpoint_saving>(),
       .of_task = true,
       .uses = {},
       .values = "a mapping, described below: how checkpoints are saved, and how often",
       .default_value = "no checkpoint is saved"},
      {.key = "step_barrier",
       .type = Switch{&Given::step_barrier, &Training::step_barrier},
       .of_task = true,
       .uses = {},
       .idle = WhyNoStepBarrier,
       .values = "`true`: the step time is measured between barriers of all ranks. `false`: the "
                 "step time is the steady interval between the ends of successive steps",
       .default_value = "`false`"},
      {.key = "dispatch",
       .type = OwnNotation<&Given::dispatch>(),
       .of_task = true,
       .uses = {},
       .of_architectures = true,
       .values = "the host time before each kernel launch of eager execution: `{module: TIME, "
                 "autograd: TIME}`. `module` applies to kernels that the code of a module "
                 "launches, also during recomputation. `autograd` applies to kernels that autograd "
                 "launches. Kernels of compiled blocks have no dispatch time",
       .default_value = "the value for the framework under `host.dispatch` in the profile. If the "
                        "profile has no such value: the value for the framework in the profile's "
                        "`frameworks` file"},
  };
}

}  // namespace

std::span<const TrainingSetting> TrainingSettings() {
  static const std::vector<TrainingSetting> rows = Rows();
  return rows;
}

}  // namespace stepcast::plan
