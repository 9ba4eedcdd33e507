#pragma once

#include <atomic>
#include <cstdint>

#include "src/program/data_flow.h"

namespace stepcast::runtime {

// The position of a run, read by the watch's thread (watch.h). The device updates it while the
// rank's thread waits or runs ahead. It names the longest-running operation, such as a collective
// whose partner does not arrive. Between operations it keeps the last name.
struct Progress {
  std::atomic<std::uint64_t> operations = 0;                 // finished so far
  std::atomic<std::uint32_t> step = 0;                       // counts from 0, warm-up included
  std::atomic<program::Index> instruction = program::kNone;  // into Program::step; or none yet
};

}  // namespace stepcast::runtime
