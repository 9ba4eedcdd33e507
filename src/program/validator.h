#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "src/program/program.h"

namespace stepcast::program {

// Errors in a step program, or between the programs of several ranks. A violation is a bug in the
// lowering, not in the user's input.

enum class ViolationKind : std::uint8_t {
  kIndex,           // a nonexistent stream, operand, use, label or byte range
  kRace,            // two conflicting uses that are not ordered
  kUseUnallocated,  // use of a buffer that is not allocated at that point
  kReleaseUnallocated,
  kRecordUnallocated,  // kRecordStream of a buffer that is not allocated at that point
  kAllocatedTwice,
  kLeak,           // allocated in the step and not released when the step is issued again
  kReleasedInUse,  // another stream may still use the memory when the owner's stream reuses it
  // The use on another stream is not ordered after the allocation, so it may overlap earlier uses
  // of the memory.
  kUsedBeforeAllocation,
  kReadUnwritten,  // read of bytes not written since the allocation
  // The kinds from here on are for the programs of several ranks (tests/proofs/matching.h).
  kMismatch,  // message without a matching end, or with different bytes or type
  kDeadlock,  // ranks that wait for one another
};
const char* Name(ViolationKind kind);

struct Violation {
  ViolationKind kind = ViolationKind::kIndex;
  bool in_prologue = false;
  Index instruction = kNone;  // index in the step, or in the prologue
  std::string message;        // one sentence that names the instruction and its conflict

  friend bool operator==(const Violation&, const Violation&) = default;
};
std::ostream& operator<<(std::ostream& out, const Violation& violation);

// Returns an instruction's name in messages, such as "step[17]".
std::string PlaceOf(bool in_prologue, Index instruction);

// Checks that a step program is free of races and memory errors, for all possible durations of its
// operations.
//
// The rule: if two operations use overlapping bytes of one buffer and one of them writes, the
// earlier in host order must end before the later starts, for all durations. Operations are ordered
// by:
//  * the order of a stream;
//  * an event recorded after the one and waited for before the other (the wait refers to the latest
//    record in host order; without a record it does not wait);
//  * the host: a host task, and whatever the host waited for, come before all that it issues later;
//  * a communicator: its collectives and exchanges run one after the other, in host order.
// The messages of an exchange are not ordered among each other.
//
// Method: vector clocks. Each stream, and the host, counts its operations; a clock says how many of
// each have certainly ended. An operation is ordered after another exactly if its clock has reached
// the other's number. For each range of a buffer, the last write and the reads since are kept, as
// in FastTrack (Flanagan and Freund, PLDI 2009): earlier uses are ordered before those, or have
// been reported. The prologue is processed once and the step twice, so that operations of a step
// are compared with those of the previous step.
//
// Lifetime of a buffer: buffers allocated by the prologue count as written. Memory is reused in
// host order on the owner's stream. At its release, every use on another stream must therefore be
// ordered before that point of the owner's stream, or kRecordStream must have named the other
// stream. Likewise, another stream's first use must come after everything that the owner's stream
// had run, and waited for, at the allocation.

// Returns all violations, without repetition, in the order of instructions. All indices must be
// valid (CheckIndices).
std::vector<Violation> CheckRaces(const Program& program);

// Checks that a step program is valid before it runs: first CheckIndices, then CheckRaces.

// Checks that everything to which a step program refers exists: operands, streams, uses, labels,
// names, byte ranges, groups and peers.

// Returns one violation (kIndex) per invalid reference. Tables come first, then instructions in
// order.
std::vector<Violation> CheckIndices(const Program& program);

// Returns all violations, without repetition, in the order of instructions. Empty: the program is
// valid. If there are invalid indices, only these are reported.
std::vector<Violation> Validate(const Program& program);

}  // namespace stepcast::program
