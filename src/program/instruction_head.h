#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/program/program.h"

namespace stepcast::program {

// What an instruction does and to what, as one number: opcode, phase, stream and operand, which lie
// side by side. For keys of programs of some ten thousand instructions.
inline std::uint64_t HeadOf(const Instruction& instruction) {
  static_assert(offsetof(Instruction, stream) == 2 && offsetof(Instruction, operand) == 4 &&
                sizeof(Index) == 4);
  std::uint64_t head = 0;
  std::memcpy(&head, &instruction, sizeof(head));
  return head;
}

}  // namespace stepcast::program
