#pragma once

#include <atomic>
#include <cstdint>

#include "src/program/data_flow.h"

namespace stepcast::runtime {

// Where a run is, for the watch's thread (watch.h). The device keeps it while the rank's thread
// waits or runs ahead: named is what has been running longest, such as the collective whose partner
// does not come; between operations, what was named last.
struct Progress {
  std::atomic<std::uint64_t> operations = 0;                 // finished so far
  std::atomic<std::uint32_t> step = 0;                       // counts from 0, warm-up included
  std::atomic<program::Index> instruction = program::kNone;  // into Program::step; or none yet
};

}  // namespace stepcast::runtime
