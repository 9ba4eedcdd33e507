#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/memory/bytes_by_category.h"
#include "src/memory/driver_calls.h"
#include "src/program/program.h"

// A rank's memory in a run: values that a replay (replay.h) finds and every table, chart and trace
// shows.
namespace stepcast::memory {

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

}  // namespace stepcast::memory
