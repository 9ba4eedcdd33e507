#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
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

// The operations whose ends the timed releases of a step wait for. They follow from the program's
// instructions and the buffers that those use.
class DelayedReleases {
 public:
  explicit DelayedReleases(const program::Program& program);

  // What the release waits for, numbered from 0 through all releases of the step.
  std::span<const std::uint32_t> Of(program::Index release) const {
    const std::uint32_t own = release_[release];
    if (own == 0) return {};
    return {uses_.data() + first_[own - 1], first_[own] - first_[own - 1]};
  }
  // The number of an instruction that releases wait for; kNone for others.
  std::uint32_t NumberOf(program::Index instruction) const { return number_[instruction] - 1; }
  std::uint32_t count() const { return count_; }
  // Whether releases wait for kernels, not for collectives and copies alone.
  bool wait_for_kernels() const { return wait_for_kernels_; }

 private:
  std::vector<std::uint32_t> release_;  // by instruction: which of the releases that wait, from 1
  std::vector<std::uint32_t> first_;    // by release, and one more: of uses_
  std::vector<std::uint32_t> uses_;     // numbers
  std::vector<std::uint32_t> number_;   // by instruction, from 1
  std::uint32_t count_ = 0;
  bool wait_for_kernels_ = false;
};
static_assert(program::kNone == std::uint32_t{0} - 1);

// What is known of a run beside its timeline, for those who look at many.
struct KnownRun {
  const DelayedReleases* delayed = nullptr;  // the program's
  // All steps after this one repeat it, and the timeline has but their ends.
  std::optional<std::uint32_t> repeated{};
  // When the operations ended that `delayed` numbers, step by step: those steps of which there are
  // records. Empty: the timeline has records of them, too.
  std::span<const Time> ends{};
};

// `capacity`: what the device has for the allocator's segments. Where not everything fits,
// `reserved` is what an unlimited device would have been asked for. `expandable`: its segments are
// expandable ones.
MemoryPeak PeakOf(const program::Program& program, const program::Timeline& timeline,
                  Bytes capacity, bool expandable = false, const KnownRun& known = {});

// The same without an allocator: `reserved` is what is handed out, and a device of that size will
// do.
MemoryPeak PeakHandedOut(const program::Program& program, const program::Timeline& timeline,
                         Bytes capacity, const KnownRun& known = {});

// The buffers that were handed out then, ascending; one that was allocated twice stands twice.
std::vector<program::Index> BuffersAtPeak(const program::Program& program,
                                          const program::Timeline& timeline);

// Whether when memory is free depends on when operations end: where a stream is recorded on a
// buffer in the step. Else the order of the instructions tells all.
bool ReleasesAreTimed(const program::Program& program);

// Peaks of one program after another, those without timed releases. Programs that hand out the same
// buffers in the same order have the same peak; it is looked up where it was found before, after a
// comparison of all that it depends on. For sweeps, where few keys concern memory.
class UntimedPeaks {
 public:
  // As PeakOf and PeakHandedOut over `steps` steps. Requires that releases are not timed.
  MemoryPeak Of(const program::Program& program, int steps, Bytes capacity,
                bool expandable = false);
  static MemoryPeak HandedOut(const program::Program& program, int steps, Bytes capacity);

 private:
  struct Known {
    std::vector<std::int64_t> key;
    MemoryPeak peak;
  };
  // Beyond so many words of keys all is forgotten: 64 MiB.
  static constexpr std::size_t kMostWords = std::size_t{8} << 20;

  std::unordered_map<std::uint64_t, Known> known_;  // by the key's hash
  std::size_t words_ = 0;
  std::vector<std::int64_t> key_;
};

}  // namespace stepcast::forecast
