#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/bytes.h"
#include "src/calibration/calibration.h"

namespace stepcast::memory {

// Returns the device memory of a process outside its allocator, in bytes: the CUDA context, and
// NCCL's buffers for `communicators` communicators.
inline Bytes OutsideAllocator(const calibration::MemoryCosts& costs, std::size_t communicators) {
  if (communicators == 0) return costs.context;
  return costs.context + costs.first_communicator +
         static_cast<std::int64_t>(communicators - 1) * costs.next_communicator;
}

}  // namespace stepcast::memory
