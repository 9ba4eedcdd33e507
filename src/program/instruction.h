#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/program/data_flow.h"
#include "src/program/program.h"

namespace stepcast::program {

// Returns opcode, phase, stream and operand of an instruction, which are adjacent in memory, as one
// number. Used for fast cache keys.
inline std::uint64_t HeadOf(const Instruction& instruction) {
  static_assert(offsetof(Instruction, stream) == 2 && offsetof(Instruction, operand) == 4 &&
                sizeof(Index) == 4);
  std::uint64_t head = 0;
  std::memcpy(&head, &instruction, sizeof(head));
  return head;
}

// Identifies one execution of an instruction: the instruction and the step.
struct OperationId {
  Index instruction = kNone;  // index in Program::step; kNone: in the prologue
  std::uint32_t step = 0;     // counts from 0, including warm-up
  friend bool operator==(const OperationId&, const OperationId&) = default;
};

// The record for which a kWaitEvent or kHostWaitEvent of the step waits: the latest record of the
// event in host order. The target may differ between the first step and later steps.
struct WaitTarget {
  Index record = kNone;  // a kRecordEvent in the step; kNone: the step does not record the event
  // Whether `record` follows the wait in host order, so that the wait refers to the previous step's
  // record.
  bool step_before = false;
  // The latest record of the event in the prologue; kNone: the prologue does not record it. The
  // wait refers to this record in the first step if `step_before` is set, and in every step if
  // `record` is kNone. If the wait refers to the prologue and there is no record, the wait is
  // satisfied at once.
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

// Describes a step that is longer than the program's step: one period of the program's step is
// repeated `more` additional times, each time for later micro-batches. A period consists of the
// instructions between the ends of two micro-batches.
struct LongerStep {
  Index begin = 0, end = 0;  // the period is the instructions [begin, end)
  int micro_batches = 1;     // number of micro-batches in one period
  std::int64_t more = 0;     // additional periods
  // The program contains several successive periods. The first period begins at `first_begin`, the
  // last period at `begin`.
  Index first_begin = 0;

  // Returns how many times the longer step contains an instruction of the program's step.
  std::int64_t Times(Index instruction) const {
    return instruction >= begin && instruction < end ? 1 + more : 1;
  }
  friend bool operator==(const LongerStep&, const LongerStep&) = default;
};

}  // namespace stepcast::program
