#pragma once

#include <vector>

#include "src/program/program.h"
#include "src/program/violation.h"

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
namespace stepcast::program {

// Every violation, each once, in the order in which the instructions are met. All that the program
// points to exists (index_check.h).
std::vector<Violation> CheckRaces(const Program& program);

}  // namespace stepcast::program
