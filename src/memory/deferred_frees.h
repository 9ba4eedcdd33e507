#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"
#include "src/program/program.h"

namespace stepcast::memory {

// A program's allocated bytes in host order, every free taking effect where it stands. No run has
// less at its peak: deferred frees, and what the allocator caches or loses in pieces, only come on
// top.
class HostOrder {
 public:
  void Run(const program::Program& program, std::span<const program::Instruction> instructions);

  Bytes allocated() const { return allocated_; }
  Bytes peak() const { return peak_; }

 private:
  Bytes allocated_, peak_;
};

// The peak of the whole program.
Bytes PeakInHostOrder(const program::Program& program);

// The same program, whose host makes these calls of the driver in each step, each before the
// allocation that it is for. cudaFree waits for the device (CUDA runtime API: "may perform implicit
// synchronization"; pytorch/pytorch pull 19222), so where segments are given back the host first
// waits for all that it has issued so far, on any stream: its lead is gone, and whatever it issues
// next, a unit's all-gather say, has nothing to hide behind.
//
// `calls` is in ascending order of instructions. The result is without the data flow. With `waits`
// false the host makes the calls and waits for nothing, for programs that would else wait for each
// other.
program::Program StoppedProgram(const program::Program& program,
                                std::span<const DriverCallsAt> calls, bool waits = true);

// The frees of a step that the caching allocator defers: those of buffers that another stream was
// recorded on (kRecordStream). Such a block is free once the last use on each recorded stream,
// issued before the free, has ended on the device; the allocator notices it at the next allocation.
// Source: pytorch/pytorch 2.6.0, c10/cuda/CUDACachingAllocator.cpp, insert_events and
// process_events. Follows from the program's instructions and the buffers that those use.
class DeferredFrees {
 public:
  explicit DeferredFrees(const program::Program& program);

  bool any() const { return !operations_.empty(); }
  // The operations whose ends this free waits for, numbered from 0 through all frees of the step.
  std::span<const std::uint32_t> Of(program::Index free) const {
    const std::uint32_t own = any() ? free_[free] : 0;
    if (own == 0) return {};
    return {uses_.data() + first_[own - 1], first_[own] - first_[own - 1]};
  }
  // The number of an operation that frees wait for; kNone for others.
  std::uint32_t NumberOf(program::Index instruction) const {
    return any() ? number_[instruction] - 1 : program::kNone;
  }
  // Those operations by number. Of all operations of a timeline, a replay needs the ends of these
  // alone.
  std::span<const program::Index> operations() const { return operations_; }

 private:
  std::vector<std::uint32_t> free_;    // by instruction: which of the deferred frees, from 1
  std::vector<std::uint32_t> first_;   // by deferred free, and one more: of uses_
  std::vector<std::uint32_t> uses_;    // numbers
  std::vector<std::uint32_t> number_;  // by instruction, from 1
  std::vector<program::Index> operations_;
};
static_assert(program::kNone == std::uint32_t{0} - 1);

}  // namespace stepcast::memory
