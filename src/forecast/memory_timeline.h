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
  // Most bytes that PyTorch's caching allocator held from the device
  // (engine/caching_allocator.h): segments, with what is cached or lost in pieces. Never less than
  // `total`.
  Bytes reserved;
  // Whether everything got its memory, at the worst by giving all cached segments back first.
  bool fits = true;
  int flushes = 0;  // how often that was necessary: each time the device stands still
};

// `capacity`: what the device has for the allocator's segments. Where not everything fits,
// `reserved` is what an unlimited device would have been asked for.
MemoryPeak PeakOf(const program::Program& program, const program::Timeline& timeline,
                  Bytes capacity);

}  // namespace stepcast::forecast
