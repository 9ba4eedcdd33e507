#pragma once

#include <cstddef>
#include <cstdint>

// The training frameworks and their general properties. settings.h lists their settings.
namespace stepcast::plan {

enum class Framework : std::uint8_t {
  kReference,
  kDdp,
  kFsdp1,
  kFsdp2,
  kDeepSpeed,
  kMegatron,
  kNanotron,
};

inline constexpr Framework kFrameworks[] = {
    Framework::kReference, Framework::kDdp,      Framework::kFsdp1,   Framework::kFsdp2,
    Framework::kDeepSpeed, Framework::kMegatron, Framework::kNanotron};

// The kernels that clip gradients (training.gradient_clipping, lowering/gradient_clipping.h).
enum class ClippingKernels : std::uint8_t {
  kMultiTensor,  // one kernel for the norms of all tensors
  // torch.nn.utils.clip_grad_norm_: like kMultiTensor; before torch 2.0, one kernel per tensor.
  kTorch,
  kTensorByTensor,  // one kernel per tensor; the clipping factor stays on the device
  kFsdp1,           // like kTensorByTensor; before torch 2.0, the host reads the norm
  kApex,            // a multi-tensor kernel computes the norm, and the host reads it
};

struct FrameworkTraits {
  const char* name;
  int first_stage, last_stage;  // the supported ZeRO stages
  // How the framework corresponds to a ZeRO stage: "keeps full copies (stage 0)".
  const char* stages = "";
  const char* other_stage = "";  // hint for an unsupported stage: "zero_stage: 0, or ..."
  // Whether the framework is part of PyTorch, and therefore uses PyTorch's optimizers and its
  // activation checkpointing without reentrant autograd.
  bool of_pytorch = false;
  // Whether, by default, one kernel updates all tensors (optimizer_implementation).
  bool fused_update = false;
  // Whether costs are those in papers: no host time, no allocator overhead and no CUDA context.
  bool textbook = false;
  // Whether `plan --frameworks all` includes the framework.
  bool searched_by_default = true;
  bool pipelines = false;  // pipelines of the framework are modeled
  bool tensor_parallel = false;
  bool context_parallel = false;
  bool expert_parallel = false;
  // With sequence parallelism: whether a rank keeps only its part of a divided layer's input and
  // gathers the full input again in backward. Gradients of parameters that are applied to a part of
  // the tokens are then summed once a step (Megatron-LM; nanotron's tp_recompute_allgather).
  bool gathers_again = false;
  // Whether layers are Megatron-LM's layers: weights in the data type of GEMMs, a padded
  // vocabulary, and one kernel for dropout and the residual sum.
  bool megatron_layers = false;
  // Whether one GEMM computes queries, keys and values, and another GEMM computes both inputs of
  // SwiGLU (Megatron-LM's linear_qkv and linear_fc1, nanotron's qkv_proj and gate_up_proj).
  bool fuses_products = false;
  // Whether a pipeline stage waits for its input before it continues, and sends its output as soon
  // as the output is ready.
  bool blocking_messages = false;
  // Whether the framework uses the layer norm of Apex or Transformer Engine, and a loss that
  // overwrites its logits.
  bool apex_kernels = false;
  ClippingKernels clipping = ClippingKernels::kMultiTensor;
};

// The traits of all frameworks, indexed by Framework.
inline constexpr FrameworkTraits kFrameworkTraits[] = {
    {.name = "reference",
     .first_stage = 0,
     .last_stage = 3,
     .fused_update = true,
     .textbook = true,
     .searched_by_default = false,
     .pipelines = true,
     .tensor_parallel = true,
     .context_parallel = true},
    {.name = "ddp",
     .first_stage = 0,
     .last_stage = 0,
     .stages = "ddp keeps full copies of the model states (stage 0)",
     .other_stage = "write zero_stage: 0, or write framework: reference or fsdp2",
     .of_pytorch = true,
     .clipping = ClippingKernels::kTorch},
    {.name = "fsdp1",
     .first_stage = 2,
     .last_stage = 3,
     .stages = "fsdp1 shards parameters (stage 3, or stage 2 without resharding)",
     .other_stage = "write zero_stage: 3 or 2, or write framework: reference or ddp",
     .of_pytorch = true,
     .tensor_parallel = true,  // with the layers of Hetu-Galvatron
     .clipping = ClippingKernels::kFsdp1},
    {.name = "fsdp2",
     .first_stage = 2,
     .last_stage = 3,
     .stages = "fsdp2 shards parameters (stage 3, or stage 2 without resharding)",
     .other_stage = "write zero_stage: 3 or 2, or write framework: reference or ddp",
     .of_pytorch = true,
     .pipelines = true,
     .tensor_parallel = true,
     .context_parallel = true,
     .expert_parallel = true},
    // The model's own code divides layers, as in Megatron-DeepSpeed.
    {.name = "deepspeed",
     .first_stage = 0,
     .last_stage = 3,
     .fused_update = true,
     .pipelines = true,
     .tensor_parallel = true,
     .expert_parallel = true,
     .blocking_messages = true},
    {.name = "megatron",
     .first_stage = 0,
     .last_stage = 1,
     .stages = "megatron keeps full copies of the model states (stage 0) or uses its distributed "
               "optimizer (stage 1)",
     .other_stage = "write zero_stage: 1 or 0, or write framework: reference or fsdp2",
     .fused_update = true,
     .pipelines = true,
     .tensor_parallel = true,
     .context_parallel = true,
     .expert_parallel = true,
     .gathers_again = true,
     .megatron_layers = true,
     .fuses_products = true,
     .blocking_messages = true,
     .apex_kernels = true,
     .clipping = ClippingKernels::kApex},
    {.name = "nanotron",
     .first_stage = 0,
     .last_stage = 1,
     .stages = "nanotron keeps full copies of the model states (stage 0) or shards the optimizer "
               "states (stage 1)",
     .other_stage = "write zero_stage: 1 or 0, or write framework: reference or fsdp2",
     .fused_update = true,
     .searched_by_default = false,
     .pipelines = true,
     .tensor_parallel = true,
     .gathers_again = true,
     .fuses_products = true,
     .blocking_messages = true,
     .clipping = ClippingKernels::kTensorByTensor},
};

constexpr const FrameworkTraits& TraitsOf(Framework framework) {
  return kFrameworkTraits[static_cast<std::size_t>(framework)];
}
constexpr const char* Name(Framework framework) { return TraitsOf(framework).name; }

// Returns whether the framework is FSDP1 or FSDP2, which have units and store gradients in the
// parameters' type.
constexpr bool IsFsdp(Framework framework) {
  return framework == Framework::kFsdp1 || framework == Framework::kFsdp2;
}

}  // namespace stepcast::plan
