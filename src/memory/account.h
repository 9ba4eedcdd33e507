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

// Calls of the driver by a caching allocator (caching_allocator.h).
struct DriverCalls {
  int flushes = 0;               // how often unused segments were given back to make room
  std::int64_t allocations = 0;  // cudaMalloc; with expandable segments: granules mapped
  std::int64_t frees = 0;        // cudaFree; granules unmapped
  Bytes given_back{};            // by these frees

  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
  friend DriverCalls operator-(DriverCalls a, const DriverCalls& b) {
    a.flushes -= b.flushes;
    a.allocations -= b.allocations;
    a.frees -= b.frees;
    a.given_back -= b.given_back;
    return a;
  }
};

// Those at one allocation of a program's step.
struct DriverCallsAt {
  program::Index instruction = program::kNone;  // Program::step
  DriverCalls calls;

  friend bool operator==(const DriverCallsAt&, const DriverCallsAt&) = default;
};

// Whether the allocator gave unused segments back in any of these calls.
inline bool AnyFlush(const std::vector<DriverCallsAt>& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const DriverCallsAt& at) { return at.calls.flushes > 0; });
}

// What calls take on the host, without what they wait for (deferred_frees.h).
//
// Per call the least, that for 2 MiB: what the driver takes to create, map and enable them (29 + 2
// + 38 us), and to unmap and release them (34 + 23 us), measured on an A100 by Prabhu et al. 2024,
// "vAttention" (arXiv 2405.04437, table 3). By size, for what is given back, and taken again: 7 ps
// a byte (7.5 ms a GiB), the median over the nine fit rows of published steps that flush; half of
// them lie between 1.3 and 9.6 (docs/decisions/allocator-flushes.md).
inline Time TimeOf(const DriverCalls& calls) {
  constexpr Time kAllocation = Microseconds(69), kFree = Microseconds(57);
  constexpr Time kByte = Picoseconds(7);
  return calls.allocations * kAllocation + calls.frees * kFree + calls.given_back.count() * kByte;
}

// A rank's memory in a run: values that a replay (replay.h) finds and every table, chart and trace
// shows.

// Where a program's memory comes from.
enum class Allocator : std::uint8_t {
  kNone,     // textbook: every buffer takes its own size from the device
  kCaching,  // PyTorch's (caching_allocator.h)
  kCachingExpandable,
};
struct Device {
  Bytes capacity;  // what the program's buffers, or the allocator's segments, may take
  Allocator allocator = Allocator::kCaching;
};

// A device where everything fits and buffers take what they ask for.
inline constexpr Device kUnlimited{.capacity = Bytes(std::numeric_limits<std::int64_t>::max() / 2),
                                   .allocator = Allocator::kNone};

// Over all steps that were run, from the prologue on.
struct Usage {
  // The peak: the first moment at which allocated buffers held most bytes, and what they were.
  Bytes peak;
  BytesByCategory at_peak{};  // adds up to `peak`
  Bytes padding;              // the part of it that only fills shards to equal length
  // Most bytes that the allocator held from the device: segments, with what is cached or lost in
  // pieces; at least `peak`. Without an allocator the same as `peak`.
  Bytes reserved;
  // Whether everything got its memory, at the worst after flushes. If not, all figures are those of
  // a device without limit.
  bool fits = true;
  int flushes = 0;  // how often the allocator gave its unused segments back to make room
  // False: these figures need not be those of the longer step that is asked for (Steps::longer).
  bool of_longer = true;
  // The driver's calls in one step (Steps::described), in its order; none where it does not flush:
  // what a run takes from the device once costs no later step anything.
  std::vector<DriverCallsAt> step_calls{};
};

// An allocation or a free as the allocator carries it out.
struct Change {
  Time time;               // by the host; zero in the prologue
  std::uint32_t step = 0;  // of the instruction; 0 in the prologue
  // Of Program::step: the allocation or free; where the free was deferred, the allocation at which
  // the allocator noticed that the block is free. kNone: in the prologue.
  program::Index instruction = program::kNone;
  program::Index buffer = program::kNone;
  bool allocates = false;
  Bytes reserved;  // after it
};

struct Account {
  Usage usage;
  std::vector<Change> changes;   // in the order in which they took effect
  std::size_t peak_changes = 0;  // so many of them lead to the peak
};

// A step in which as much is allocated as at the peak: the first one of [first, last], or else the
// first of all. The prologue belongs to step 0.
std::uint32_t StepOfPeak(const program::Program& program, const Account& account,
                         std::uint32_t first, std::uint32_t last);

// Allocated bytes after a number of changes.
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

// The buffers that are allocated at the peak, ascending; one whose earlier block is still waiting
// for a deferred free stands twice.
std::vector<program::Index> BuffersAtPeak(const program::Program& program, const Account& account);

// Steps says what a replay (replay.h) takes for the steps of a run.
struct Steps {
  std::uint32_t described = 0;  // the step whose calls of the driver Usage::step_calls lists
  // When this is set, every step, also each before it, is taken to be equal to this one. The replay
  // then reads the records of this step alone, and of the others only how many there are.
  std::optional<std::uint32_t> repeated{};
  // When this is set, steps have more micro-batches than the program has. A replay of a program
  // with deferred frees then needs `repeated` as well.
  std::optional<program::LongerStep> longer{};
  Time period{};  // how long one period of `longer` takes in the run
};

}  // namespace stepcast::memory
