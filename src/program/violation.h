#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "src/program/program.h"

// What can be wrong with a step program, or with the programs of several ranks together. A
// violation is a bug of the lowering that wrote the program, not of the user.
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

// How messages name an instruction: "step[17]".
std::string PlaceOf(bool in_prologue, Index instruction);

}  // namespace stepcast::program
