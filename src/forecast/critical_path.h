#pragma once

#include <cstdint>
#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// The chain of operations, each of which could not start before the one before it had ended, that
// leads to the end of a step: make something on it shorter and the step may become shorter; make
// anything else shorter and it does not.
namespace stepcast::forecast {

enum class PathPartKind : std::uint8_t {
  kOperation,  // a kernel, copy, collective or host task runs
  kHost,       // the host issues instructions; the device has nothing to do before it does
  kPartners,   // a collective waits for ranks that have not reached it
  kStall,      // nothing that the timeline shows
};

struct PathPart {
  PathPartKind kind = PathPartKind::kStall;
  program::Index instruction = program::kNone;  // kOperation, kPartners: which
  Time start, end;
};

// The path through [start, end) of one rank's timeline, first part first. Parts follow one another
// without a gap and add up to end - start; one that began before `start` is cut there.
std::vector<PathPart> CriticalPath(const program::Program& program,
                                   const program::Timeline& timeline, Time start, Time end);

}  // namespace stepcast::forecast
