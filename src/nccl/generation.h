#pragma once

#include <cstdint>

namespace stepcast::nccl {

// The rows of NCCL's tables that depend on the GPU. A communicator takes the row of its oldest GPU.
enum class Generation : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// Compute capability as NCCL counts it: 90 is 9.0.
constexpr Generation GenerationOf(int compute_capability) {
  if (compute_capability >= 100) return Generation::kBlackwell;
  if (compute_capability >= 90) return Generation::kHopper;
  if (compute_capability >= 80) return Generation::kAmpere;
  return Generation::kVolta;
}

}  // namespace stepcast::nccl
