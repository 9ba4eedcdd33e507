#pragma once

#include <cstddef>
#include <cstdint>

#include "src/plan/framework_traits.h"
#include "src/plan/frameworks/ddp.h"
#include "src/plan/frameworks/deepspeed.h"
#include "src/plan/frameworks/fsdp1.h"
#include "src/plan/frameworks/fsdp2.h"
#include "src/plan/frameworks/megatron.h"
#include "src/plan/frameworks/nanotron.h"
#include "src/plan/frameworks/reference.h"

// What runs data parallelism. Which settings each has is data_parallel_settings.h.
namespace stepcast::plan {

enum class Framework : std::uint8_t {
  kReference,  // the default of whatever has a framework
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

// By Framework.
inline constexpr const FrameworkTraits* kFrameworkTraits[] = {
    &kReferenceTraits, &kDdpTraits,      &kFsdp1Traits,   &kFsdp2Traits,
    &kDeepSpeedTraits, &kMegatronTraits, &kNanotronTraits};

constexpr const FrameworkTraits& TraitsOf(Framework framework) {
  return *kFrameworkTraits[static_cast<std::size_t>(framework)];
}
constexpr const char* Name(Framework framework) { return TraitsOf(framework).name; }

// Whether the framework is one of PyTorch's FSDP: units, gradients kept in the parameters' type.
constexpr bool IsFsdp(Framework framework) { return TraitsOf(framework).fsdp; }

}  // namespace stepcast::plan
