#pragma once

#include <span>

#include "src/base/bytes.h"
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

}  // namespace stepcast::memory
