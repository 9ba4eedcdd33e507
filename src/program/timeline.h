#pragma once

#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"

// A record of a program's run, in virtual time or on hardware. Simulator and runtime write the same
// format, so that forecast and measurement can be compared operation by operation. A record has an
// index in Program::step and the index of the step. Names, sizes and streams are in the program.
namespace stepcast::program {

// The record of a kernel, copy, collective, exchange or host task.
struct OperationRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time issued{};  // when the host submitted it
  // The time at which the operation's stream and waits allowed it to start. From `ready` to
  // `start`, a collective waits for its communicator and for other ranks. An exchange waits for the
  // last of its peers, although messages with other peers may be transferred earlier.
  Time ready{};
  Time start{};
  Time end{};
};

// The record of a wait: a stream, or the host, was blocked from `start` to `end`.
struct WaitRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time start{};
  Time end{};
};

// A memory change, at the time when the host issued an allocation or release.
struct MemoryRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time time{};
};

// The record of one rank's run. Records of one stream are in time order; memory records are in host
// order.
struct Timeline {
  std::vector<OperationRecord> operations{};  // ordered by (end, issue)
  std::vector<WaitRecord> waits{};            // ordered by (end, issue)
  std::vector<MemoryRecord> memory{};
  // For each step: the time at which all work issued in the step has finished. Not decreasing.
  std::vector<Time> step_ends{};
};

}  // namespace stepcast::program
