#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/memory/account.h"
#include "src/program/program.h"

namespace stepcast::memory {

// Computes a program's allocated bytes in host order, as if every free took effect immediately. The
// result is a lower bound of the peak of any run, because deferred frees, caching and fragmentation
// only increase it.
class HostOrder {
 public:
  void Run(const program::Program& program, std::span<const program::Instruction> instructions);

  Bytes allocated() const { return allocated_; }
  Bytes peak() const { return peak_; }

 private:
  Bytes allocated_, peak_;
};

// Returns the peak of the complete program in host order, in bytes.
Bytes PeakInHostOrder(const program::Program& program);

// Returns the program with the driver calls that its host makes in each step. Each call precedes
// its allocation. `calls` must be in ascending order of instructions. The result has no data flow.
//
// cudaFree waits for the device (CUDA runtime API: "may perform implicit synchronization";
// pytorch/pytorch pull 19222). Before segments are freed, the host therefore waits for all work
// that it has issued, on any stream. The host is then no longer ahead of the device, so the next
// operation that it issues, such as a unit's all-gather, is exposed. With `waits` false, the host
// makes the calls without waiting, for programs that would otherwise deadlock.
program::Program StoppedProgram(const program::Program& program,
                                std::span<const DriverCallsAt> calls, bool waits = true);

// The frees of a step that the caching allocator defers, derived from the program's instructions
// and their buffer uses: frees of buffers for which another stream was recorded (kRecordStream).
// The block of this buffer becomes free when, on each recorded stream, the last use issued before
// the free has ended on the device. The allocator detects this at the next allocation. Source:
// pytorch/pytorch 2.6.0, c10/cuda/CUDACachingAllocator.cpp, insert_events and process_events.
class DeferredFrees {
 public:
  explicit DeferredFrees(const program::Program& program);

  bool any() const { return !operations_.empty(); }
  // Returns the operations that a free waits for. Operations are numbered from 0 over all frees of
  // the step.
  std::span<const std::uint32_t> Of(program::Index free) const {
    const std::uint32_t own = any() ? free_[free] : 0;
    if (own == 0) return {};
    return {uses_.data() + first_[own - 1], first_[own] - first_[own - 1]};
  }
  // Returns the number of an operation that frees wait for, or kNone for other operations.
  std::uint32_t NumberOf(program::Index instruction) const {
    return any() ? number_[instruction] - 1 : program::kNone;
  }
  // Returns the operations that frees wait for, by number. A replay needs the end times of only
  // these operations.
  std::span<const program::Index> operations() const { return operations_; }

 private:
  std::vector<std::uint32_t> free_;    // by instruction: number of the deferred free, from 1 on
  std::vector<std::uint32_t> first_;   // by deferred free: index in uses_, plus one entry for the
                                       // end
  std::vector<std::uint32_t> uses_;    // operation numbers
  std::vector<std::uint32_t> number_;  // indexed by instruction, from 1 on
  std::vector<program::Index> operations_;
};
static_assert(program::kNone == std::uint32_t{0} - 1);

}  // namespace stepcast::memory
