#include "src/memory/host_order.h"

#include <algorithm>

namespace stepcast::memory {

void HostOrder::Run(const program::Program& program,
                    std::span<const program::Instruction> instructions) {
  for (const program::Instruction& instruction : instructions) {
    if (instruction.opcode == program::Opcode::kAllocate) {
      allocated_ += program.buffers[instruction.operand].size;
      peak_ = std::max(peak_, allocated_);
    } else if (instruction.opcode == program::Opcode::kRelease) {
      allocated_ -= program.buffers[instruction.operand].size;
    }
  }
}

Bytes PeakInHostOrder(const program::Program& program) {
  HostOrder order;
  order.Run(program, program.prologue);
  order.Run(program, program.step);
  order.Run(program, program.step);  // what one step leaves to the next
  return order.peak();
}

}  // namespace stepcast::memory
