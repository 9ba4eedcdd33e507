#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "src/program/program.h"

namespace stepcast::program {

// The errors that a step program, or the programs of several ranks together, can have. A violation
// is a bug in the lowering, not an error in the user's input.

enum class ViolationKind : std::uint8_t {
  kIndex,           // a nonexistent stream, operand, use, label or byte range
  kRace,            // two conflicting uses that are not ordered
  kUseUnallocated,  // use of a buffer that is not allocated at that point
  kReleaseUnallocated,
  kRecordUnallocated,  // kRecordStream of a buffer that is not allocated at that point
  kAllocatedTwice,
  kLeak,           // allocated in the step, and not released before the step is issued again
  kReleasedInUse,  // another stream may still use the memory when the owner's stream reuses it
  // The use on another stream is not ordered after the allocation, so this use may overlap earlier
  // uses of the memory.
  kUsedBeforeAllocation,
  kReadUnwritten,  // read of bytes not written since the allocation
  // The kinds below are for the programs of several ranks (tests/proofs/matching.h).
  kMismatch,  // message without a matching end, or whose ends differ in bytes or type
  kDeadlock,  // ranks that wait for each other
};
const char* Name(ViolationKind kind);

struct Violation {
  ViolationKind kind = ViolationKind::kIndex;
  bool in_prologue = false;
  Index instruction = kNone;  // index in the step, or in the prologue
  std::string message;        // one sentence that names the instruction and the conflict

  friend bool operator==(const Violation&, const Violation&) = default;
};
std::ostream& operator<<(std::ostream& out, const Violation& violation);

// Returns an instruction's name in messages, such as "step[17]".
std::string PlaceOf(bool in_prologue, Index instruction);

// Checks that a step program is free of races and memory errors, for all possible durations of its
// operations.
//
// The rule applies to two operations that use overlapping bytes of one buffer, if at least one of
// the operations writes. The operation that is earlier in host order must end before the other
// operation starts, for all durations. Operations are ordered by:
//  * the order of a stream;
//  * an event that is recorded after the earlier operation and waited for before the later
//    operation (the wait refers to the latest record in host order; without a record, the wait has
//    no effect);
//  * the host: a host task, and all work that the host waited for, precede all work that the host
//  issues later;
//  * a communicator: its collectives and exchanges run one after the other, in host order.
// The messages of an exchange are not ordered among each other.
//
// Method: vector clocks. The host and each stream number their operations. An operation's clock
// contains, for the host and for each stream, the number of operations that have certainly ended.
// Operation a is ordered before operation b exactly if b's clock has reached a's number. For each
// range of a buffer, the validator stores the last write and the reads since that write, as in
// FastTrack (Flanagan and Freund, PLDI 2009). Earlier uses are ordered before the stored uses, or
// have been reported. The validator processes the prologue once and the step twice, so that
// operations of a step are compared with operations of the previous step.
//
// Lifetime of a buffer: buffers that the prologue allocates count as written. Memory is reused in
// host order on the owner's stream. Therefore, every use on another stream must be ordered before
// the release on the owner's stream, unless kRecordStream names the other stream. Likewise, the
// first use on another stream must be ordered after all operations that precede the allocation on
// the owner's stream.
//
// Returns all violations, without repetition, in the order of instructions. All indices must be
// valid (CheckIndices).
std::vector<Violation> CheckRaces(const Program& program);

// Checks that all references of a step program are valid: operands, streams, uses, labels, names,
// byte ranges, groups and peers. Returns one violation (kIndex) per invalid reference. Tables come
// first, then instructions in order.
std::vector<Violation> CheckIndices(const Program& program);

// Checks that a step program is valid before it runs: first CheckIndices, then CheckRaces. Returns
// all violations, without repetition, in the order of instructions. Empty: the program is valid. If
// there are invalid indices, only invalid indices are reported.
std::vector<Violation> Validate(const Program& program);

}  // namespace stepcast::program
