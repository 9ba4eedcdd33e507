#pragma once

#include <cstddef>
#include <cstdint>

// What runs data parallelism, and what is true of each as a whole. Which settings one has is
// settings.h.
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

// How gradients are clipped (training.gradient_clipping; lowering/gradient_clipping.h).
enum class ClippingKernels : std::uint8_t {
  kMultiTensor,     // one kernel takes the norms of all tensors
  kTorch,           // torch.nn.utils.clip_grad_norm_: the same, before torch 2.0 tensor by tensor
  kTensorByTensor,  // with the factor on the device
  kFsdp1,           // the same; before torch 2.0 the host read the norm
  kApex,            // the host reads the norm, which a multi-tensor kernel has summed up
};

struct FrameworkTraits {
  const char* name;
  int first_stage, last_stage;   // ZeRO stages that it has
  const char* stages = "";       // what it does, as a stage: "keeps full copies, which is stage 0"
  const char* other_stage = "";  // a hint for another one: "zero_stage: 0, or ..."
  // PyTorch's own: its checkpoints without reentrant autograd, its optimizers, which can update
  // tensor by tensor.
  bool of_pytorch = false;
  // Updates all tensors in one kernel, unless optimizer_implementation says otherwise.
  bool fused_update = false;
  // The costs that papers count: no host, no allocator, no context.
  bool textbook = false;
  // `plan --frameworks all` tries it.
  bool searched_by_default = true;
  bool pipelines = false;  // those that are modelled
  // Divides layers among ranks (tensor parallelism).
  bool tensor_parallel = false;
  // Divides sequences among ranks (context parallelism).
  bool context_parallel = false;
  // Shares out the experts of a mixture among ranks (expert parallelism).
  bool expert_parallel = false;
  // With sequence parallelism a rank keeps its part of what a divided layer takes and gathers the
  // whole again in backward, and gradients of what is applied to parts of the tokens are added up
  // once a step (Megatron-LM; nanotron's tp_recompute_allgather).
  bool gathers_again = false;
  // Megatron-LM's layers: weights are kept in the type of the products, the vocabulary is padded,
  // dropout and sum are one kernel.
  bool megatron_layers = false;
  // Queries, keys and values are one product, and so are SwiGLU's two (Megatron-LM's linear_qkv and
  // linear_fc1, nanotron's qkv_proj and gate_up_proj).
  bool fuses_products = false;
  // Pipeline stages wait for what they receive, and send when they have made it.
  bool blocking_messages = false;
  // Apex's or Transformer Engine's layer norm, a loss that overwrites its logits.
  bool apex_kernels = false;
  ClippingKernels clipping = ClippingKernels::kMultiTensor;
};

// By Framework.
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
     .stages = "keeps full copies, which is stage 0",
     .other_stage = "zero_stage: 0, or framework: reference or fsdp2",
     .of_pytorch = true,
     .clipping = ClippingKernels::kTorch},
    {.name = "fsdp1",
     .first_stage = 2,
     .last_stage = 3,
     .stages = "shards parameters, which is stage 3, or stage 2 without resharding",
     .other_stage = "zero_stage: 3 or 2, or framework: reference or ddp",
     .of_pytorch = true,
     .tensor_parallel = true,  // of the model's own layers: Hetu-Galvatron's
     .clipping = ClippingKernels::kFsdp1},
    {.name = "fsdp2",
     .first_stage = 2,
     .last_stage = 3,
     .stages = "shards parameters, which is stage 3, or stage 2 without resharding",
     .other_stage = "zero_stage: 3 or 2, or framework: reference or ddp",
     .of_pytorch = true,
     .pipelines = true,
     .tensor_parallel = true,
     .context_parallel = true,
     .expert_parallel = true},
    // Layers that ranks divide are the model's own there: Megatron-DeepSpeed's.
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
     .stages =
         "keeps full copies, which is stage 0, or has its distributed optimizer, which is stage 1",
     .other_stage = "zero_stage: 1 or 0, or framework: reference or fsdp2",
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
     .stages = "keeps full copies, which is stage 0, or shards the optimizer, which is stage 1",
     .other_stage = "zero_stage: 1 or 0, or framework: reference or fsdp2",
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

// Whether the framework is one of PyTorch's FSDP: units, gradients kept in the parameters' type.
constexpr bool IsFsdp(Framework framework) {
  return framework == Framework::kFsdp1 || framework == Framework::kFsdp2;
}

}  // namespace stepcast::plan
