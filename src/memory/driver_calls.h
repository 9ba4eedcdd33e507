#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/program/data_flow.h"

namespace stepcast::memory {

// Calls of the driver by a caching allocator (caching_allocator.h).
struct DriverCalls {
  int flushes = 0;               // how often unused segments were given back to make room
  std::int64_t allocations = 0;  // cudaMalloc; with expandable segments: granules mapped
  std::int64_t frees = 0;        // cudaFree; granules unmapped
  Bytes given_back{};            // by these frees

  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
  friend DriverCalls operator-(DriverCalls a, const DriverCalls& b) {
    a.flushes -= b.flushes;
    a.allocations -= b.allocations;
    a.frees -= b.frees;
    a.given_back -= b.given_back;
    return a;
  }
};

// Those at one allocation of a program's step.
struct DriverCallsAt {
  program::Index instruction = program::kNone;  // Program::step
  DriverCalls calls;

  friend bool operator==(const DriverCallsAt&, const DriverCallsAt&) = default;
};

// Whether the allocator gave unused segments back in any of these calls.
inline bool AnyFlush(const std::vector<DriverCallsAt>& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const DriverCallsAt& at) { return at.calls.flushes > 0; });
}

// What calls take on the host, without what they wait for (stopped_program.h).
//
// Per call the least, that for 2 MiB: what the driver takes to create, map and enable them (29 + 2
// + 38 us), and to unmap and release them (34 + 23 us), measured on an A100 by Prabhu et al. 2024,
// "vAttention" (arXiv 2405.04437, table 3). By size, for what is given back, and taken again: 7 ps
// a byte (7.5 ms a GiB), the median over the nine fit rows of published steps that flush; half of
// them lie between 1.3 and 9.6 (docs/decisions/allocator-flushes.md).
inline Time TimeOf(const DriverCalls& calls) {
  constexpr Time kAllocation = Microseconds(69), kFree = Microseconds(57);
  constexpr Time kByte = Picoseconds(7);
  return calls.allocations * kAllocation + calls.frees * kFree + calls.given_back.count() * kByte;
}

}  // namespace stepcast::memory
