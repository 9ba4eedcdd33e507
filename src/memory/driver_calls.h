#pragma once

#include <cstdint>

#include "src/base/time.h"

namespace stepcast::memory {

// Calls of the driver by a caching allocator (caching_allocator.h).
struct DriverCalls {
  int flushes = 0;               // how often unused segments were given back to make room
  std::int64_t allocations = 0;  // cudaMalloc; with expandable segments: granules mapped
  std::int64_t frees = 0;        // cudaFree; granules unmapped

  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
  friend DriverCalls operator-(DriverCalls a, const DriverCalls& b) {
    a.flushes -= b.flushes;
    a.allocations -= b.allocations;
    a.frees -= b.frees;
    return a;
  }
};

// The least that the calls of a step with flushes take on the host. cudaFree waits for the device
// (CUDA runtime API: "may perform implicit synchronization"; pytorch/pytorch pull 19222), so at a
// flush the host has no lead left, and the device stands still as long as the host is busy with
// these calls: they add to the step.
//
// Per call: what the driver takes to create, map and enable 2 MiB (29 + 2 + 38 us), and to unmap
// and release them (34 + 23 us), measured on an A100 by Prabhu et al. 2024, "vAttention" (arXiv
// 2405.04437, table 3). Larger segments take longer, by how much is not known
// (docs/decisions/allocator-flushes.md).
inline Time LeastTimeOf(const DriverCalls& calls) {
  constexpr Time kAllocation = Microseconds(69), kFree = Microseconds(57);
  return calls.allocations * kAllocation + calls.frees * kFree;
}

}  // namespace stepcast::memory
