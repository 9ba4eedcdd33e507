#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/program/program.h"

namespace stepcast::memory {

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
