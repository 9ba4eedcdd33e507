#pragma once

#include <compare>
#include <cstdint>
#include <string>

// The settings that decide which activations live from forward to backward.
namespace stepcast::model {

// How much of a layer is recomputed in backward (Korthikanti et al. 2022, arXiv 2205.05198).
enum class Checkpointing : std::uint8_t {
  kNone,
  kSelective,  // some modules of a block are recomputed: RecomputedModules
  kFull,       // only a block's input is kept
  // A block keeps only its input and the results of the attention core, of reduce-scatters, of
  // all-to-alls, and of every second GEMM, starting with the first. This is torchtitan's default
  // policy (pytorch/torchtitan@b5bcd76, "selective op").
  kSelectiveOp,
};

// The module of a block to which an operator belongs. kNone: no module that can be recomputed.
enum class Module : std::uint8_t {
  kNone,
  kAttentionCore,
  kFeedForward,
  kNorm,
  kMixture,           // router, dispatch, experts and combination
  kExpertActivation,  // the activation function of a mixture's experts
  kLatentUp,          // up-projections of latent attention
  kFurtherBlock,      // the complete block of a multi-token-prediction module
};

// Returns whether recomputation of the module also drops the module's output, which the next
// operator would otherwise keep.
constexpr bool DropsOutput(Module module) {
  return module == Module::kNorm || module == Module::kExpertActivation ||
         module == Module::kLatentUp;
}

// The modules that selective recomputation drops and runs again, with the names of Megatron-LM's
// --recompute-modules (megatron/core/transformer/transformer_config.py). Feed-forward layers and
// attention cores keep their input and drop their inner values. Norms, the experts' activation
// (moe_act) and the up-projections of latent attention (mla_up_proj) drop their outputs.
struct RecomputedModules {
  bool core_attn = true, mlp = false, layernorm = false, moe = false, moe_act = false;
  bool mla_up_proj = false;
  bool further_block = false;  // multi-token-prediction blocks; has no name
  bool Has(Module module) const {
    return (module == Module::kAttentionCore && core_attn) ||
           (module == Module::kFeedForward && mlp) || (module == Module::kNorm && layernorm) ||
           (module == Module::kMixture && moe) || (module == Module::kLatentUp && mla_up_proj) ||
           (module == Module::kFurtherBlock && further_block) ||
           (module == Module::kExpertActivation && (moe || moe_act));
  }
  friend auto operator<=>(const RecomputedModules&, const RecomputedModules&) = default;
};
// The name and the member of each recomputed module.
struct RecomputedModuleName {
  const char* name;
  bool RecomputedModules::*member;
};
inline constexpr RecomputedModuleName kRecomputedModuleNames[] = {
    {"core_attn", &RecomputedModules::core_attn}, {"mlp", &RecomputedModules::mlp},
    {"layernorm", &RecomputedModules::layernorm}, {"moe", &RecomputedModules::moe},
    {"moe_act", &RecomputedModules::moe_act},     {"mla_up_proj", &RecomputedModules::mla_up_proj}};

// A selection of blocks: an evenly spaced fraction, or the first blocks of a rank. The fraction
// selects block i, numbered from 1, if floor(i x part / of + 1/2) is larger than for block i - 1.
// 1/2 selects every second block (foundation-model-stack/fms-fsdp,
// fms_fsdp/policies/ac_handler.py). The fraction is counted over all pipeline chunks of a rank
// (torchtitan's _layer_sac_count), and the first blocks are counted in each chunk (Megatron-LM's
// --recompute-method block).
struct Share {
  std::int64_t part = 1, of = 1;  // 1 <= part <= of
  std::int64_t first = 0;         // if not 0, selects this number of blocks, and `part` is ignored
  bool all() const { return first == 0 && part == of; }
  bool is_part() const { return first == 0 && part < of; }
  // Returns whether the selection includes the block with this index.
  bool Has(std::int64_t block) const {
    if (first > 0) return block < first;
    return (2 * (block + 1) * part + of) / (2 * of) > (2 * block * part + of) / (2 * of);
  }
  friend auto operator<=>(const Share&, const Share&) = default;
};

// The implementation of the attention core. The fused kernels write no score matrix to memory and
// differ only in speed:
//   kFlash: FlashAttention-2 (arXiv 2307.08691), which has no kernels for Blackwell.
//   kFlash1: FlashAttention-1 (arXiv 2205.14135), also its Triton version. kFlash1 does not use the
//     tensor core instructions of GPUs newer than A100.
//   kFlash3: FlashAttention-3 (arXiv 2407.08608), for Hopper.
//   kCudnn: cuDNN's attention, for Hopper and Blackwell. If a profile lacks kCudnn, forecasts use
//     kFlash.
//   kFlex: PyTorch's FlexAttention (arXiv 2412.05496), a Triton kernel that torch.compile generates
//     for one mask. If a profile lacks kFlex, forecasts use a slower kFlash.
// The other implementations write the score matrix to memory:
//   kMath: mask and softmax are separate kernels.
//   kMathFp32: like kMath, but the softmax runs in FP32 and is cast to 16 bits (Hugging Face's
//     eager attention; kMath under autocast).
//   kFusedSoftmax: one kernel for scale, mask and softmax (Megatron-LM's
//     scaled_upper_triang_masked_softmax), which reads only the scores that the causal mask does
//     not hide. If this kernel does not support the numbers of heads and tokens, casts, scale, mask
//     and softmax are separate kernels.
enum class Attention : std::uint8_t {
  kFlash,
  kMath,
  kFlash1,
  kFlash3,
  kFusedSoftmax,
  kMathFp32,
  kCudnn,
  kFlex
};

// The implementation of the cross entropy over the full vocabulary:
//   kEager: separate kernels for a cast to FP32, log-softmax and negative log-likelihood.
//   kInPlace: Megatron-LM's loss (megatron/core/tensor_parallel/cross_entropy.py). Kernels compute
//     the softmax and then the gradient in place, in one FP32 copy of the logits. kInPlace has more
//     kernels than kEager, but uses less memory.
//   kFused: one kernel that keeps FP32 numbers in registers (FlashAttention's and Liger's loss,
//     torch.compile).
//   kHuggingFace: like kEager, but the FP32 logits stay in memory until the end of backward,
//     because the training loop keeps a reference to them (transformers before 4.45; prime-rl's
//     loop).
//   kChunked: the head's GEMM and the loss run chunk by chunk, and each chunk's gradients are
//     computed immediately. At most two chunks' logits exist (Liger's fused_linear_cross_entropy,
//     arXiv 2410.10989; torchtitan's ChunkedCELoss).
//   kCut: one kernel computes logits block by block on chip, and backward computes them again.
//     Logits are never written to memory (Cut Cross-Entropy, arXiv 2411.09009).
enum class Loss : std::uint8_t { kEager, kInPlace, kFused, kHuggingFace, kChunked, kCut };
// Returns whether the loss reads the head's input and weight and computes the logits itself.
constexpr bool MakesLogits(Loss loss) { return loss == Loss::kChunked || loss == Loss::kCut; }

// The implementation of a norm, of rotary positions or of a feed-forward layer's activation
// function:
//   kFused: one forward kernel (norms of PyTorch since 2.9, flash-attn and Liger; Megatron-LM's
//     SwiGLU).
//   kEager: one kernel per operation, in FP32, as in PyTorch's RMSNorm before 2.9 and the complex
//     rotary positions of Meta and torchtitan. SiLU and the multiplication after it are separate
//     kernels.
//   kCompiled: torch.compile's kernels: one forward kernel, which includes the sum before the norm,
//     and one backward kernel. Also flash-attn's dropout_add_layer_norm.
//   kApex, kTransformerEngine: one kernel. The gradients of a norm's weights are summed first
//     within parts of the tokens and then over the parts, so the sum is memory-bound. In PyTorch's
//     layer norm, one thread block instead sums 32 columns over all tokens.
//   kHuggingFace: one kernel per operation, with rotary positions by halves in 16 bits, and
//   NewGELU.
// A layer norm is one kernel in every implementation. GELU is also one kernel, except NewGELU.
enum class Implementation : std::uint8_t {
  kFused,
  kEager,
  kCompiled,
  kApex,
  kTransformerEngine,
  kHuggingFace,
};
// Returns whether every operation is a separate kernel.
constexpr bool IsUnfused(Implementation implementation) {
  return implementation == Implementation::kEager || implementation == Implementation::kHuggingFace;
}

// How GEMMs of blocks overlap the collectives before and after them, with tensor and sequence
// parallelism:
//   kNone: only as far as concurrent streams allow.
//   kUserBuffers: Transformer Engine's user buffers with their defaults
//     (transformer_engine/pytorch/module/base.py, initialize_ub). An all-gather before a GEMM is a
//     ring exchange by copy engines, and the GEMM has one piece per rank. A reduce-scatter after a
//     GEMM runs in 4 pieces on 16 multiprocessors. Collectives that no GEMM depends on ("bulk") run
//     on 16 multiprocessors.
//   kAsync: PyTorch's asynchronous tensor parallelism (torch/distributed/_symmetric_memory). A GEMM
//     has one piece per rank, and copy engines send each piece directly to its destination.
enum class TensorOverlap : std::uint8_t { kNone, kUserBuffers, kAsync };
// The number of pieces of a GEMM whose result user buffers reduce-scatter. A rank's number of
// tokens must be divisible by this number.
inline constexpr int kPiecesOfUserBuffers = 4;
// The number of streams that alternately run the pieces of a GEMM, for user buffers and for
// asynchronous tensor parallelism (transformer_engine/common/comm_gemm_overlap,
// NVTE_COMM_OVERLAP_MAX_STREAMS; torch/distributed/_symmetric_memory, the current stream and the
// backend's stream).
inline constexpr int kStreamsOfUserBuffers = 3, kStreamsOfAsync = 2;

// How operands of FP8 GEMMs are cast if each tensor (or each row) has one scale:
//   kDelayed: Transformer Engine's DelayedScaling. The scale is computed from the maxima of
//     previous steps. One kernel reads a tensor once and writes it by rows and transposed.
//   kCurrent: Transformer Engine's Float8CurrentScaling. An additional kernel first computes the
//     tensor's maximum.
//   kTorchao: torchao's dynamic scaling (torchao/float8/float8_linear.py). Like kCurrent, but
//     tensors are cast only by rows. Separate kernels transpose the inputs of weight-gradient
//     GEMMs.
//   kTorchaoRowwise: torchao's recipe `rowwise`, with one scale per row. Inputs are kept in 16 bits
//     and cast again by columns for the weight gradients. The GEMMs of backward use one scale per
//     tensor, and another kernel scales their results (pytorch/ao pull request 1325).
enum class Fp8Scaling : std::uint8_t { kDelayed, kCurrent, kTorchao, kTorchaoRowwise };

const char* Name(Fp8Scaling scaling);                // "delayed", "torchao_rowwise", ...
const char* Name(TensorOverlap overlap);             // "none", "user_buffers", "async"
const char* Name(Implementation implementation);     // "fused", "eager", "compiled", ...
const char* Name(Loss loss);                         // "eager", "in_place", "fused"
const char* Name(Checkpointing checkpointing);       // "none", "selective", ...
std::string Text(const RecomputedModules& modules);  // "core_attn mlp"
std::string Text(const Share& share);                // "all", "1/2", "first 4"
const char* Name(Attention attention);               // "flash", "math", "flash1", ...
// Returns the generation of FlashAttention, 1 to 3. Returns 4 for kCudnn, 5 for kFlex, and 0 if the
// score matrix is in memory.
int FlashGeneration(Attention attention);
// Returns whether the kernel's softmax does not support attention sinks, so that the output is
// rescaled by the log-sum-exp (torchtitan/models/gpt_oss/model.py, apply_attention_sink_rescale).
// cuDNN's kernel and transformers' FlashAttention-3 support sinks.
constexpr bool RescalesForSinks(Attention attention) {
  return attention == Attention::kFlash || attention == Attention::kFlash1 ||
         attention == Attention::kFlex;
}

}  // namespace stepcast::model
