#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"
#include "src/program/program.h"

namespace stepcast::memory {

// Computes a program's allocated bytes as if every free took effect when the host issues it. The
// result is a lower bound for the peak of any run, because deferred frees, caching and
// fragmentation only increase memory.
class HostOrder {
 public:
  void Run(const program::Program& program, std::span<const program::Instruction> instructions);

  Bytes allocated() const { return allocated_; }
  Bytes peak() const { return peak_; }

 private:
  Bytes allocated_, peak_;
};

// Returns the peak of the complete program, computed by HostOrder, in bytes.
Bytes PeakInHostOrder(const program::Program& program);

// Returns the program with driver calls in the step. Each call precedes its allocation. `calls`
// must be in ascending order of instructions. The result has no data flow.
//
// cudaFree waits for the device (CUDA runtime API: "may perform implicit synchronization";
// pytorch/pytorch pull 19222). Before segments are freed, the host therefore waits for all work
// that it has issued, on any stream. The host is then no longer ahead of the device, so the next
// operation, such as a unit's all-gather, is exposed. If `waits` is false, the host does not wait;
// for programs that would otherwise deadlock.
program::Program StoppedProgram(const program::Program& program,
                                std::span<const DriverCallsAt> calls, bool waits = true);

// The frees of a step that the caching allocator defers: frees of buffers for which another stream
// was recorded (kRecordStream). The block becomes free when, on each recorded stream, its last use
// before the free has ended on the device. The allocator detects this at the next allocation.
// Source: pytorch/pytorch 2.6.0, c10/cuda/CUDACachingAllocator.cpp, insert_events and
// process_events.
class DeferredFrees {
 public:
  explicit DeferredFrees(const program::Program& program);

  bool any() const { return !operations_.empty(); }
  // Returns the operations that a free waits for, as indices in operations().
  std::span<const std::uint32_t> Of(program::Index free) const {
    const std::uint32_t own = any() ? free_[free] : 0;
    if (own == 0) return {};
    return {uses_.data() + first_[own - 1], first_[own] - first_[own - 1]};
  }
  // Returns the index of an operation in operations(), or kNone if no free waits for it.
  std::uint32_t NumberOf(program::Index instruction) const {
    return any() ? number_[instruction] - 1 : program::kNone;
  }
  // Returns all operations that frees wait for, as indices in Program::step. A replay needs no
  // other operation's end time.
  std::span<const program::Index> operations() const { return operations_; }

 private:
  std::vector<std::uint32_t> free_;    // by instruction: number of the deferred free, from 1 on
  std::vector<std::uint32_t> first_;   // by deferred free: index of its first entry in uses_
  std::vector<std::uint32_t> uses_;    // indices in operations_
  std::vector<std::uint32_t> number_;  // by instruction: index in operations_, plus 1
  std::vector<program::Index> operations_;
};
static_assert(program::kNone == std::uint32_t{0} - 1);

}  // namespace stepcast::memory
