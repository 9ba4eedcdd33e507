#pragma once

#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"

// What happened when a program ran, in virtual time or on hardware. Simulator and runtime write
// the same form, so that forecast and measurement lie side by side, operation by operation.
// A record names its instruction (an index into Program::step) and the step it was issued in;
// names, sizes and streams are looked up in the program.
namespace stepcast::program {

// A kernel, copy, collective, exchange or host task.
struct OperationRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time issued{};  // the host had submitted it
  // Its stream and its waits let it go; a collective then waits for its communicator and its
  // partners until `start`. So does an exchange: at `start` the last of its peers has reached it;
  // messages of others may have moved before.
  Time ready{};
  Time start{};
  Time end{};
};

// A stream (or the host) stood at a wait that was not satisfied yet, from `start` to `end`.
struct WaitRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time start{};
  Time end{};
};

// Memory changed when the host issued an allocation or release.
struct MemoryRecord {
  Index instruction = kNone;
  std::uint32_t step = 0;
  Time time{};
};

// One rank's run. Records of one stream are in time order; memory records are in host order.
struct Timeline {
  std::vector<OperationRecord> operations{};  // in order of (end, issue)
  std::vector<WaitRecord> waits{};            // likewise
  std::vector<MemoryRecord> memory{};
  // End of step s: when everything issued in it had finished. Not decreasing.
  std::vector<Time> step_ends{};
};

}  // namespace stepcast::program
