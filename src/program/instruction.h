#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/program/data_flow.h"
#include "src/program/program.h"

namespace stepcast::program {

// Returns opcode, phase, stream and operand of an instruction as one number; they are adjacent in
// memory. Used in cache keys for programs with tens of thousands of instructions.
inline std::uint64_t HeadOf(const Instruction& instruction) {
  static_assert(offsetof(Instruction, stream) == 2 && offsetof(Instruction, operand) == 4 &&
                sizeof(Index) == 4);
  std::uint64_t head = 0;
  std::memcpy(&head, &instruction, sizeof(head));
  return head;
}

// Identifies one issue of one instruction: the instruction and the step.
struct OperationId {
  Index instruction = kNone;  // index in Program::step; kNone: in the prologue
  std::uint32_t step = 0;     // counts from 0, including warm-up
  friend bool operator==(const OperationId&, const OperationId&) = default;
};

// The record for which a kWaitEvent or kHostWaitEvent of the step waits. It is the latest record of
// the wait's event in host order, and is the same in every step except the first.
struct WaitTarget {
  Index record = kNone;  // a kRecordEvent in the step; kNone: the step does not record the event
  // Whether `record` comes after the wait in host order, so that the wait refers to the previous
  // step's record.
  bool step_before = false;
  // A record in the prologue. The wait refers to it in the first step if `step_before` is set, and
  // always if `record` is kNone. kNone: nothing was recorded, and the wait is satisfied at once.
  Index prologue_record = kNone;

  friend bool operator==(const WaitTarget&, const WaitTarget&) = default;
};

// The targets of all waits, with one entry per instruction. Entries of instructions that do not
// wait have no meaning.
struct WaitTargets {
  std::vector<WaitTarget> prologue;  // only `prologue_record` is used
  std::vector<WaitTarget> step;
};

// Fills `targets`, reusing its memory. The program's indices must be valid.
void FindWaitTargets(const Program& program, WaitTargets& targets);

// A step that is longer than the program's step. One period of the program's step is repeated
// `more` times, each time for later micro-batches. A period lasts from the end of one micro-batch
// to the end of another.
struct LongerStep {
  Index begin = 0, end = 0;  // the period: its first instruction, and the one after its last
  int micro_batches = 1;     // number of micro-batches in one period
  std::int64_t more = 0;     // additional periods
  // The instruction at which the first compared period begins. The program contains several
  // successive periods; the last one begins at `begin`.
  Index first_begin = 0;

  // Returns how many times the longer step contains an instruction of the program's step.
  std::int64_t Times(Index instruction) const {
    return instruction >= begin && instruction < end ? 1 + more : 1;
  }
  friend bool operator==(const LongerStep&, const LongerStep&) = default;
};

}  // namespace stepcast::program
