#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "src/program/program.h"

// Proves that a step program is free of races and of mistakes in its memory, before anything runs
// it. A violation is a bug of the lowering that wrote the program, not of the user.
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
namespace stepcast::program {

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

// Every violation, each once, in the order in which the instructions are met; empty: the program is
// sound. Wrong indices are found first, and then nothing else is looked for.
std::vector<Violation> Validate(const Program& program);

}  // namespace stepcast::program
