#pragma once

#include "src/base/bytes.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

namespace stepcast::forecast {

// What the allocator had handed out when it had handed out most, over all recorded steps.
//
// Allocations and releases take effect when the host issues them. A buffer that another stream was
// recorded on (kRecordStream) is released only when that stream's uses, issued before the release,
// have ended on the device; as in PyTorch's caching allocator this is noticed at the next
// allocation.
struct MemoryPeak {
  BytesByCategory by_category{};
  Bytes total;
  Bytes padding;
  // The same peak with every block rounded up to the allocator's granule of 512 B: the least that
  // it must have reserved.
  Bytes reserved;
};

MemoryPeak PeakOf(const program::Program& program, const program::Timeline& timeline);

}  // namespace stepcast::forecast
