#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/program/data_flow.h"
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

// Names one issue of one instruction.
struct OperationId {
  Index instruction = kNone;  // into Program::step; kNone: of the prologue
  std::uint32_t step = 0;     // counts from 0, warm-up included
  friend bool operator==(const OperationId&, const OperationId&) = default;
};

// What a kWaitEvent or kHostWaitEvent of the step waits for: the latest record of its event in host
// order, which differs from step to step only in the first one.
struct WaitTarget {
  Index record = kNone;      // a kRecordEvent in the step; kNone: the step does not record it
  bool step_before = false;  // `record` comes later in host order: that of the step before counts
  // In the prologue: what counts in the first step if `step_before`, and always if `record` is
  // kNone. kNone: nothing was recorded, and the wait is satisfied at once.
  Index prologue_record = kNone;

  friend bool operator==(const WaitTarget&, const WaitTarget&) = default;
};

// One entry for each instruction; those of instructions that do not wait say nothing.
struct WaitTargets {
  std::vector<WaitTarget> prologue;  // only `prologue_record` has a meaning
  std::vector<WaitTarget> step;
};

// Fills `targets`, reusing its memory. The program's indices must be right.
void FindWaitTargets(const Program& program, WaitTargets& targets);

// A step that is meant in the place of a program's: it has one period of the program's step, from
// the end of one micro-batch to that of another, so many times more, each time for later
// micro-batches.
struct LongerStep {
  Index begin = 0, end = 0;  // of the period: its first instruction, and the one behind it
  int micro_batches = 1;     // in the period
  std::int64_t more = 0;     // periods
  // The program itself has the period several times in a row. The first of those that were compared
  // with one another begins at this instruction, and the last one at `begin`.
  Index first_begin = 0;

  // How often the longer step has an instruction.
  std::int64_t Times(Index instruction) const {
    return instruction >= begin && instruction < end ? 1 + more : 1;
  }
  friend bool operator==(const LongerStep&, const LongerStep&) = default;
};

}  // namespace stepcast::program
