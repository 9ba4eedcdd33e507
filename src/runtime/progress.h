#pragma once

#include <atomic>
#include <cstdint>

#include "src/program/data_flow.h"

namespace stepcast::runtime {

// The position of a run, read by the watch's thread (watch.h). The device updates it while the
// rank's thread waits or runs ahead. It names the operation that has run longest, such as a
// collective whose partner does not arrive. Between operations, the last name stays.
struct Progress {
  std::atomic<std::uint64_t> operations = 0;                 // number finished so far
  std::atomic<std::uint32_t> step = 0;                       // counted from 0, warm-up included
  std::atomic<program::Index> instruction = program::kNone;  // index in Program::step; kNone: none
                                                             // yet
};

}  // namespace stepcast::runtime
