#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "src/program/program.h"

namespace stepcast::program {

// What can be wrong with a step program, or with the programs of several ranks together. A
// violation is a bug of the lowering that wrote the program, not of the user.

enum class ViolationKind : std::uint8_t {
  kIndex,           // a stream, operand, use, label or byte range that does not exist
  kRace,            // two conflicting uses that are not ordered
  kUseUnallocated,  // a use of a buffer that is not allocated then
  kReleaseUnallocated,
  kRecordUnallocated,  // kRecordStream of a buffer that is not allocated then
  kAllocatedTwice,
  kLeak,           // allocated in the step, still there when the step is issued again
  kReleasedInUse,  // another stream may still use it when its owner's stream reuses the memory
  // another stream's use does not follow the allocation: the memory may still be in use there
  kUsedBeforeAllocation,
  kReadUnwritten,  // a read of bytes that nothing has written since the allocation
  // Of the programs of several ranks (matching.h):
  kMismatch,  // a message whose other end is missing, or is of other bytes or another type
  kDeadlock,  // ranks that wait for one another
};
const char* Name(ViolationKind kind);

struct Violation {
  ViolationKind kind = ViolationKind::kIndex;
  bool in_prologue = false;
  Index instruction = kNone;  // into the step, or the prologue
  std::string message;        // one sentence that names the instruction and what it conflicts with

  friend bool operator==(const Violation&, const Violation&) = default;
};
std::ostream& operator<<(std::ostream& out, const Violation& violation);

// How messages name an instruction: "step[17]".
std::string PlaceOf(bool in_prologue, Index instruction);

// Proves that a step program is free of races and of mistakes in its memory, whatever times its
// operations take.
//
// The rule: of two operations that use overlapping bytes of one buffer, one of them writing, the
// earlier in host order must have ended before the later starts, whatever times they take. What
// puts operations in order:
//   * the order of a stream;
//   * an event that is recorded behind the one and waited for before the other (the wait refers to
//     the latest record in host order; it waits for nothing when there was none);
//   * the host: a host task and what it waited for come before all it issues later;
//   * a communicator: its collectives and exchanges run one after the other, in host order.
// The messages of an exchange are not ordered among each other.
//
// Method: vector clocks. Each stream, and the host, counts its operations; a clock says how many of
// each have surely ended. An operation is ordered after another exactly when its clock has reached
// the other's number. For each range of a buffer the last write and the reads since are kept, as in
// FastTrack (Flanagan and Freund, PLDI 2009): what came before those is ordered before them, or has
// been reported. The prologue is gone through once and the step twice, so that a step's operations
// are held against those of the step before.
//
// A buffer's life: what is allocated by the prologue counts as written. Memory is reused in host
// order on the owner's stream, so at its release every use on another stream must be ordered before
// that point of the owner's stream, or kRecordStream must have named the other stream. For the same
// reason another stream's first use must come after all that the owner's stream had run, and waited
// for, at the allocation.

// Every violation, each once, in the order in which the instructions are met. All that the program
// points to exists (validator.h).
std::vector<Violation> CheckRaces(const Program& program);

// Proves that a step program is sound before anything runs it: that all it points to exists
// (validator.h), and that it is free of races and of mistakes in its memory (validator.h).

// Proves that all that a step program points to exists: operands, streams, uses, labels, names,
// byte ranges, groups and peers.

// One violation (kIndex) for each that does not, tables first, then instructions in order.
std::vector<Violation> CheckIndices(const Program& program);

// Every violation, each once, in the order in which the instructions are met; empty: the program is
// sound. Wrong indices are found first, and then nothing else is looked for.
std::vector<Violation> Validate(const Program& program);

}  // namespace stepcast::program
