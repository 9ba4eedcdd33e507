#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/program/data_flow.h"
#include "src/program/instruction.h"
#include "src/program/program.h"

namespace stepcast::memory {

using BytesByCategory = std::array<Bytes, program::kCategories>;

// The number of driver calls of a caching allocator (caching_allocator.h).
struct DriverCalls {
  int flushes = 0;               // number of times that unused segments were freed
  std::int64_t allocations = 0;  // cudaMalloc calls; with expandable segments, mapped granules
  std::int64_t frees = 0;        // cudaFree calls; with expandable segments, unmapped granules
  Bytes given_back{};            // bytes freed by `frees`

  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
  friend DriverCalls operator-(DriverCalls a, const DriverCalls& b) {
    a.flushes -= b.flushes;
    a.allocations -= b.allocations;
    a.frees -= b.frees;
    a.given_back -= b.given_back;
    return a;
  }
};

// The driver calls of one allocation in a program's step.
struct DriverCallsAt {
  program::Index instruction = program::kNone;  // index in Program::step
  DriverCalls calls;

  friend bool operator==(const DriverCallsAt&, const DriverCallsAt&) = default;
};

// Returns whether the allocator freed unused segments in any of these calls.
inline bool AnyFlush(const std::vector<DriverCallsAt>& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const DriverCallsAt& at) { return at.calls.flushes > 0; });
}

// Returns the host time of driver calls, without waits for the device (deferred_frees.h).
//
// For 2 MiB, the calls take at least 29 + 2 + 38 us to create, map and enable access, and 34 + 23
// us to unmap and release. (Source: Prabhu et al. 2024, "vAttention", arXiv 2405.04437, table 3,
// A100.) In addition, each byte that is freed and allocated again takes 7 ps (7.5 ms per GiB). The
// value of 7 ps is the median over nine published steps with flushes. For half of these steps, the
// fitted value is between 1.3 and 9.6 ps (docs/decisions.md).
inline Time TimeOf(const DriverCalls& calls) {
  constexpr Time kAllocation = Microseconds(69), kFree = Microseconds(57);
  constexpr Time kByte = Picoseconds(7);
  return calls.allocations * kAllocation + calls.frees * kFree + calls.given_back.count() * kByte;
}

// The memory of a rank in a run, computed by a replay (replay.h), and shown by tables, charts and
// traces.

// The kind of allocator of a program.
enum class Allocator : std::uint8_t {
  kNone,     // textbook: every buffer has exactly its size on the device
  kCaching,  // PyTorch's caching allocator (caching_allocator.h)
  kCachingExpandable,
};
struct Device {
  Bytes capacity;  // bytes for the program's buffers or for the allocator's segments
  Allocator allocator = Allocator::kCaching;
};

// A device with unlimited memory and without an allocator.
inline constexpr Device kUnlimited{.capacity = Bytes(std::numeric_limits<std::int64_t>::max() / 2),
                                   .allocator = Allocator::kNone};

// Memory use over all steps of a run, including the prologue.
struct Usage {
  // The maximum of the allocated bytes, and the bytes of each category when it is first reached.
  Bytes peak;
  BytesByCategory at_peak{};  // adds up to `peak`
  Bytes padding;              // the bytes of the peak that pad shards to equal length
  // The maximum of the bytes that the allocator reserves on the device, including cached and
  // fragmented memory. At least `peak`; without an allocator, equal to `peak`.
  Bytes reserved;
  // Whether every allocation succeeded, possibly after flushes. If false, all members are for a
  // device with unlimited memory.
  bool fits = true;
  int flushes = 0;  // number of times that unused segments were freed
  // Whether the members are valid for the requested longer step (Steps::longer). If false, the
  // memory of the longer step may differ.
  bool of_longer = true;
  // The driver calls in the step Steps::described, in order. Empty if the step does not flush,
  // because allocations then need no driver calls in later steps.
  std::vector<DriverCallsAt> step_calls{};
};

// An allocation or free, when it takes effect in the allocator.
struct Change {
  Time time;               // host time; zero in the prologue
  std::uint32_t step = 0;  // step of the instruction; 0 in the prologue
  // The index in Program::step of the allocation or free; kNone in the prologue. For a deferred
  // free, the allocation at which the allocator detects that the block is free.
  program::Index instruction = program::kNone;
  program::Index buffer = program::kNone;
  bool allocates = false;
  Bytes reserved;  // reserved bytes after the change
};

struct Account {
  Usage usage;
  std::vector<Change> changes;   // in the order in which they take effect
  std::size_t peak_changes = 0;  // number of changes until the peak is reached
};

// Returns the first step in [first, last] in which the allocated bytes reach the peak. If there is
// no such step, returns the first such step of the run. The prologue belongs to step 0.
std::uint32_t StepOfPeak(const program::Program& program, const Account& account,
                         std::uint32_t first, std::uint32_t last);

// Computes the allocated bytes after a sequence of changes.
class Balance {
 public:
  void Apply(const program::Program& program, const Change& change) {
    const program::Buffer& buffer = program.buffers[change.buffer];
    Bytes& bytes = by_category_[static_cast<std::size_t>(buffer.category)];
    if (change.allocates) {
      bytes += buffer.size;
      total_ += buffer.size;
    } else {
      bytes -= buffer.size;
      total_ -= buffer.size;
    }
  }
  const BytesByCategory& by_category() const { return by_category_; }
  Bytes total() const { return total_; }

 private:
  BytesByCategory by_category_{};
  Bytes total_;
};

// Returns the buffers that are allocated at the peak, in ascending order. A buffer occurs twice if
// a deferred free of its earlier block has not taken effect.
std::vector<program::Index> BuffersAtPeak(const program::Program& program, const Account& account);

// The assumptions of a replay (replay.h) about the steps of a run.
struct Steps {
  std::uint32_t described = 0;  // the step whose driver calls are in Usage::step_calls
  // If set, all steps are assumed to be equal to this step. The replay then reads only this step's
  // records and the number of steps.
  std::optional<std::uint32_t> repeated{};
  // If set, steps have more micro-batches than the program. For programs with deferred frees,
  // `repeated` must then also be set.
  std::optional<program::LongerStep> longer{};
  Time period{};  // duration of one period of `longer`
};

}  // namespace stepcast::memory
