#pragma once

#include <compare>
#include <cstdint>
#include <string>

// Choices that decide which activations live from forward to backward.
namespace stepcast::model {

// Recomputation in backward (Korthikanti et al. 2022, arXiv 2205.05198).
enum class Checkpointing : std::uint8_t {
  kNone,
  kSelective,  // some modules of a block are recomputed: RecomputedModules
  kFull,       // only a block's input is kept
  // The block keeps its input and the results of the attention core, of every second matrix product
  // starting with the first, of reduce-scatters and of all-to-alls. All other values are
  // recomputed. This is torchtitan's default policy (pytorch/torchtitan@b5bcd76, "selective op").
  kSelectiveOp,
};

// The module of a block to which an operator belongs. kNone: the operator is in no module that can
// be recomputed separately.
enum class Module : std::uint8_t {
  kNone,
  kAttentionCore,
  kFeedForward,
  kNorm,
  kMixture,           // router, dispatch, experts and combination
  kExpertActivation,  // of a mixture, the experts' activation function
  kLatentUp,          // latent attention, from the vectors to queries, keys and values
  kFurtherBlock,      // the whole block of a multi-token-prediction module
};

// Returns whether recomputing the module saves the memory of the module's output. The output is
// then dropped, although the next operator would keep it.
constexpr bool DropsOutput(Module module) {
  return module == Module::kNorm || module == Module::kExpertActivation ||
         module == Module::kLatentUp;
}

// The modules that selective recomputation drops and runs again, with the names of Megatron-LM's
// --recompute-modules (megatron/core/transformer/transformer_config.py). A feed-forward layer or an
// attention core keeps its input and drops its inner values. A norm drops its output, which the
// next layer would otherwise keep. The experts' activation (moe_act) and the up-projections of
// latent attention (mla_up_proj) also drop their outputs.
struct RecomputedModules {
  bool core_attn = true, mlp = false, layernorm = false, moe = false, moe_act = false;
  bool mla_up_proj = false;
  bool further_block = false;  // for models whose blocks are recomputed as a whole; has no name
  bool Has(Module module) const {
    return (module == Module::kAttentionCore && core_attn) ||
           (module == Module::kFeedForward && mlp) || (module == Module::kNorm && layernorm) ||
           (module == Module::kMixture && moe) || (module == Module::kLatentUp && mla_up_proj) ||
           (module == Module::kFurtherBlock && further_block) ||
           (module == Module::kExpertActivation && (moe || moe_act));
  }
  friend auto operator<=>(const RecomputedModules&, const RecomputedModules&) = default;
};
// Their names and members.
struct RecomputedModuleName {
  const char* name;
  bool RecomputedModules::*member;
};
inline constexpr RecomputedModuleName kRecomputedModuleNames[] = {
    {"core_attn", &RecomputedModules::core_attn}, {"mlp", &RecomputedModules::mlp},
    {"layernorm", &RecomputedModules::layernorm}, {"moe", &RecomputedModules::moe},
    {"moe_act", &RecomputedModules::moe_act},     {"mla_up_proj", &RecomputedModules::mla_up_proj}};

// A selection of blocks: either an evenly spaced fraction, or the first blocks of a rank. The
// fraction selects those blocks, numbered from 1, where i x part / of + 1/2 reaches another
// integer. 1/2 selects every second block, 2/3 two of three (foundation-model-stack/fms-fsdp,
// fms_fsdp/policies/ac_handler.py). If a rank has several chunks of a pipeline, the count continues
// through all of them (torchtitan's _layer_sac_count). The first blocks are counted in each chunk
// (Megatron-LM's --recompute-method block).
struct Share {
  std::int64_t part = 1, of = 1;  // 1 <= part <= of
  std::int64_t first = 0;         // if not 0, this many blocks, and `part` is ignored
  bool all() const { return first == 0 && part == of; }
  bool is_part() const { return first == 0 && part < of; }
  // Returns whether the selection includes the block with this number, counted from 0.
  bool Has(std::int64_t block) const {
    if (first > 0) return block < first;
    return (2 * (block + 1) * part + of) / (2 * of) > (2 * block * part + of) / (2 * of);
  }
  friend auto operator<=>(const Share&, const Share&) = default;
};

// How the attention core runs: fused, without the score matrix in memory, or as separate kernels.
// The fused forms differ only in speed:
//  kFlash    FlashAttention-2 (arXiv 2307.08691); without kernels for Blackwell
//  kFlash1   the first generation (arXiv 2205.14135), also in Triton; on GPUs after A100 it does
//            not use the tensor cores' new instructions
//  kFlash3   the third (arXiv 2407.08608), for Hopper
//  kCudnn    cuDNN's, for Hopper and Blackwell; if a profile does not have it, as kFlash
//  kFlex     PyTorch's FlexAttention (arXiv 2412.05496): a kernel that torch.compile makes for one
//            mask, in Triton; if a profile does not have it, as kFlash, somewhat slower
// The forms with the score matrix:
//  kMath          mask and softmax are separate kernels
//  kMathFp32      the same, the softmax in FP32 and cast to 16 bits (Hugging Face's eager
//                 attention; kMath under autocast)
//  kFusedSoftmax  one kernel (Megatron-LM's scaled_upper_triang_masked_softmax) if it supports the
//                 numbers of heads and tokens, otherwise casts, scale, mask and softmax; it reads
//                 only what the causal mask leaves
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

// The cross entropy over the whole vocabulary:
//  kEager    a cast to FP32, log-softmax and negative log-likelihood, each through memory
//  kInPlace  Megatron-LM's (megatron/core/tensor_parallel/cross_entropy.py): an FP32 copy that is
//            shifted, exponentiated, divided and turned into its gradient in place; more passes
//            over less memory
//  kFused    one kernel that keeps FP32 in registers (FlashAttention's and Liger's loss,
//            torch.compile)
//  kHuggingFace  kEager, and the FP32 logits stay until the end of backward: the model's forward
//            returns them, and the training loop holds the result (transformers before 4.45 casts
//            in the forward of its models; prime-rl's loop)
//  kChunked  the head's product and the loss for a part of the tokens at a time, each with its
//            gradients at once: at most two parts' logits exist (Liger's
//            fused_linear_cross_entropy, arXiv 2410.10989; torchtitan's ChunkedCELoss)
//  kCut      one kernel makes logits block by block on chip, and backward makes them again: none
//            reach memory (Cut Cross-Entropy, arXiv 2411.09009)
enum class Loss : std::uint8_t { kEager, kInPlace, kFused, kHuggingFace, kChunked, kCut };
// Returns whether the loss reads the head's input and weight and computes the logits itself.
constexpr bool MakesLogits(Loss loss) { return loss == Loss::kChunked || loss == Loss::kCut; }

// The implementation of a norm, rotary positions or a feed-forward's activation function:
//  kFused              one kernel forward (PyTorch's own norm since 2.9, flash-attn's, Liger's,
//                      Megatron-LM's SwiGLU)
//  kEager              operation by operation in FP32, like PyTorch's RMSNorm before 2.9 and the
//                      complex rotary positions of Meta and torchtitan; SiLU and its product are
//                      separate
//  kCompiled           torch.compile's: one kernel with the sum before it, and one backward; also
//                      flash-attn's dropout_add_layer_norm
//  kApex, kTransformerEngine   one kernel, and the gradients of a norm's weights summed over parts
//                      of the tokens and then over the parts, which is memory-bound; PyTorch's
//                      layer norm walks all tokens in one thread block for 32 columns
//  kHuggingFace        operation by operation; rotary positions by halves in 16 bits, NewGELU
// A layer norm is one kernel in every implementation, and so is GELU except NewGELU.
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

// With tensor and sequence parallelism, how products of blocks overlap the collectives that feed
// them or use their results:
//  kNone         only as far as concurrent streams happen to overlap
//  kUserBuffers  Transformer Engine's user buffers (transformer_engine/pytorch/module/base.py,
//                initialize_ub, its defaults): all-gathers before products, forward and of output
//                gradients, as a ring exchange by copy engines with the product in as many pieces
//                as there are ranks; reduce-scatters after products in 4 pieces, on 16
//                multiprocessors; collectives without a dependent product ("bulk") on 16, too
//  kAsync        PyTorch's asynchronous tensor parallelism (torch/distributed/_symmetric_memory):
//                in as many pieces as there are ranks, each sent directly to its destination by
//                copy engines
enum class TensorOverlap : std::uint8_t { kNone, kUserBuffers, kAsync };
// The number of pieces of a product whose result is summed by user buffers. Each rank's part of the
// tokens must be divisible by this number.
inline constexpr int kPiecesOfUserBuffers = 4;
// The number of streams that run the pieces of products alternately
// (transformer_engine/common/comm_gemm_overlap, NVTE_COMM_OVERLAP_MAX_STREAMS;
// torch/distributed/_symmetric_memory, the current stream and the backend's stream).
inline constexpr int kStreamsOfUserBuffers = 3, kStreamsOfAsync = 2;

// How operands of FP8 products with per-tensor (or per-row) scales are cast:
//  kDelayed  Transformer Engine's DelayedScaling: the scale comes from the maxima of previous
//            steps; one pass reads a tensor, and writes it by rows and transposed
//  kCurrent  its Float8CurrentScaling: an additional pass first reads the tensor's maximum
//  kTorchao  torchao's dynamic scaling (torchao/float8/float8_linear.py): as kCurrent, by rows
//            only; separate kernels transpose the inputs of weight-gradient products
//  kTorchaoRowwise  its recipe `rowwise`, one scale per row: inputs are kept in 16 bits, and cast
//            again by columns for the weight gradients; the products of backward are those for one
//            scale, whose results another kernel scales (pytorch/ao pull request 1325)
enum class Fp8Scaling : std::uint8_t { kDelayed, kCurrent, kTorchao, kTorchaoRowwise };

const char* Name(Fp8Scaling scaling);                // "delayed", "torchao_rowwise", ...
const char* Name(TensorOverlap overlap);             // "none", "user_buffers", "async"
const char* Name(Implementation implementation);     // "fused", "eager", "compiled", ...
const char* Name(Loss loss);                         // "eager", "in_place", "fused"
const char* Name(Checkpointing checkpointing);       // "none", "selective", ...
std::string Text(const RecomputedModules& modules);  // "core_attn mlp"
std::string Text(const Share& share);                // "all", "1/2", "first 4"
const char* Name(Attention attention);               // "flash", "math", "flash1", ...
// Returns the generation of FlashAttention, 1 to 3; 4 for kCudnn and 5 for kFlex. 0 if the score
// matrix is in memory.
int FlashGeneration(Attention attention);
// For attention with sinks: returns whether the kernel's softmax does not support sinks, so that
// its output is rescaled by the log-sum-exp (torchtitan/models/gpt_oss/model.py,
// apply_attention_sink_rescale). cuDNN's kernel supports sinks, and transformers runs
// FlashAttention-3 with sinks.
constexpr bool RescalesForSinks(Attention attention) {
  return attention == Attention::kFlash || attention == Attention::kFlash1 ||
         attention == Attention::kFlex;
}

}  // namespace stepcast::model
