#pragma once

#include <cstddef>
#include <cstdint>

// What runs data parallelism, and what is true of each as a whole. Which settings one has is
// data_parallel_settings.h.
namespace stepcast::plan {

enum class Framework : std::uint8_t {
  kReference,
  kDdp,
  kFsdp1,
  kFsdp2,
  kDeepSpeed,
  kMegatron,
  kInternEvo,
};

inline constexpr Framework kFrameworks[] = {
    Framework::kReference, Framework::kDdp,      Framework::kFsdp1,    Framework::kFsdp2,
    Framework::kDeepSpeed, Framework::kMegatron, Framework::kInternEvo};

struct FrameworkTraits {
  const char* name;
  int first_stage, last_stage;  // ZeRO stages that it has
  // PyTorch's own: its checkpoints without reentrant autograd, its optimizers, which can update
  // tensor by tensor.
  bool of_pytorch;
  // Updates all tensors in one kernel, unless optimizer_implementation says otherwise.
  bool fused_update;
};

// By Framework.
inline constexpr FrameworkTraits kFrameworkTraits[] = {
    {.name = "reference",
     .first_stage = 0,
     .last_stage = 3,
     .of_pytorch = false,
     .fused_update = true},
    {.name = "ddp", .first_stage = 0, .last_stage = 0, .of_pytorch = true, .fused_update = false},
    {.name = "fsdp1", .first_stage = 2, .last_stage = 3, .of_pytorch = true, .fused_update = false},
    {.name = "fsdp2", .first_stage = 2, .last_stage = 3, .of_pytorch = true, .fused_update = false},
    {.name = "deepspeed",
     .first_stage = 0,
     .last_stage = 3,
     .of_pytorch = false,
     .fused_update = true},
    {.name = "megatron",
     .first_stage = 0,
     .last_stage = 1,
     .of_pytorch = false,
     .fused_update = true},
    {.name = "internevo",
     .first_stage = 1,
     .last_stage = 1,
     .of_pytorch = false,
     .fused_update = false},
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
