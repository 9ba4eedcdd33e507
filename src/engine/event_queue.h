#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#include "src/base/check.h"
#include "src/base/time.h"

namespace stepcast::engine {

// The events to come, earliest first; events of the same time come out in the order they were
// pushed. That order is total, so a run never depends on how the heap happens to lie.
//
// An event is a time and a payload of at most four bytes: an index with a tag, not an object.
// There is no removal. An event that lost its meaning (an activity's end that has moved) stays in
// the queue, and the owner ignores it when it comes out.
//
// The heap is 4-ary and implicit; an event takes sixteen bytes, so that the four children of a node
// fill one cache line, and a pop fetches the lines of the next level while it compares this one.
// tests/benchmark/event_queue_benchmark.cc measures it against Boost.Heap, which is as fast while
// the heap fits in the cache, and slower at a million events.
//
// Push and Pop take O(log n) and allocate only when the queue grows beyond its longest so far.
template <typename Payload>
class EventQueue {
  static_assert(std::is_trivially_copyable_v<Payload>);
  static_assert(sizeof(Payload) == 4, "four bytes, so that an event fills sixteen");

 public:
  struct Event {
    Time time;
    Payload payload;
  };

  EventQueue() = default;
  // Sequence numbers start at `first_sequence`. Where they start never shows; the parameter lets a
  // test reach the point at which they are used up.
  explicit EventQueue(std::uint32_t first_sequence) : next_sequence_(first_sequence) {}

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void Clear() { size_ = 0; }

  // Makes room for `count` events in advance.
  void Reserve(std::size_t count) {
    if (kFirst + count + kArity > entries_.size()) entries_.resize(kFirst + count + kArity);
  }

  void Push(Time time, Payload payload) {
    if (next_sequence_ == std::numeric_limits<std::uint32_t>::max()) Renumber();
    if (kFirst + size_ + kArity >= entries_.size()) Reserve(2 * size_ + 64);
    const Entry entry = Pack(time, next_sequence_++, payload);
    std::size_t hole = size_++;
    Entry* const heap = entries_.data() + kFirst;
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (heap[parent] <= entry) break;
      heap[hole] = heap[parent];
      hole = parent;
    }
    heap[hole] = entry;
  }

  // The earliest event. Requires !empty().
  Event Top() const { return Unpack(entries_[kFirst]); }

  // Takes the earliest event out. Requires !empty().
  Event Pop() {
    STEPCAST_CHECK(size_ > 0, "an empty queue has no event");
    Entry* const heap = entries_.data() + kFirst;
    const Event top = Unpack(heap[0]);
    const Entry last = heap[--size_];
    // The line of children that the queue's end cuts is filled up with entries later than any
    // event, so that the minimum of four needs no bounds.
    const std::size_t end = (size_ + kArity - 2) / kArity * kArity + 1;
    for (std::size_t i = size_; i < end; ++i) heap[i] = kLatest;
    std::size_t hole = 0;
    for (;;) {
      const std::size_t child = hole * kArity + 1;
      if (child >= size_) break;
      const Entry* const grandchildren = heap + child * kArity + 1;
      for (std::size_t line = 0; line < kArity; ++line) {
        __builtin_prefetch(grandchildren + line * kArity);
      }
      const std::size_t least = child + Least(heap + child);
      if (last <= heap[least]) break;
      heap[hole] = heap[least];
      hole = least;
    }
    heap[hole] = last;
    return top;
  }

 private:
  struct Entry {
    std::uint64_t tie = 0;  // sequence number above, payload below: unique, in order of pushing
    std::int64_t time = 0;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.time != b.time ? a.time < b.time : a.tie < b.tie;
    }
    friend bool operator<=(const Entry& a, const Entry& b) { return !(b < a); }
  };

  static constexpr std::size_t kArity = 4;
  // Entries in front of the root, so that the children of every node start a cache line.
  static constexpr std::size_t kFirst = 3;
  static constexpr std::size_t kCacheLine = 64;
  static constexpr Entry kLatest = {std::numeric_limits<std::uint64_t>::max(),
                                    std::numeric_limits<std::int64_t>::max()};

  template <typename T>
  struct LineAllocator {
    using value_type = T;
    LineAllocator() = default;
    template <typename U>
    LineAllocator(const LineAllocator<U>&) {}
    T* allocate(std::size_t count) {
      return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kCacheLine)));
    }
    void deallocate(T* pointer, std::size_t) {
      ::operator delete(pointer, std::align_val_t(kCacheLine));
    }
    friend bool operator==(LineAllocator, LineAllocator) { return true; }
  };

  static Entry Pack(Time time, std::uint32_t sequence, Payload payload) {
    return {static_cast<std::uint64_t>(sequence) << 32 | std::bit_cast<std::uint32_t>(payload),
            time.picoseconds()};
  }
  static Event Unpack(const Entry& entry) {
    return {Time::FromPicoseconds(entry.time),
            std::bit_cast<Payload>(static_cast<std::uint32_t>(entry.tie))};
  }

  // Which of four siblings comes first: without a branch, unless times are equal.
  static std::size_t Least(const Entry* sibling) {
    const std::int64_t time0 = sibling[0].time;
    const std::int64_t time1 = sibling[1].time;
    const std::int64_t time2 = sibling[2].time;
    const std::int64_t time3 = sibling[3].time;
    std::size_t left = time1 < time0 ? 1 : 0;
    std::size_t right = time3 < time2 ? 3 : 2;
    const std::int64_t left_time = time1 < time0 ? time1 : time0;
    const std::int64_t right_time = time3 < time2 ? time3 : time2;
    if ((time0 == time1) | (time2 == time3) | (left_time == right_time)) [[unlikely]] {
      left = sibling[1] < sibling[0] ? 1 : 0;
      right = sibling[3] < sibling[2] ? 3 : 2;
      return sibling[right] < sibling[left] ? right : left;
    }
    return right_time < left_time ? right : left;
  }

  // Once in four billion events the sequence numbers are used up: those waiting get the first ones
  // again, in their order. An ordered array is a heap.
  void Renumber() {
    std::sort(entries_.begin() + kFirst, entries_.begin() + kFirst + static_cast<long>(size_));
    next_sequence_ = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const Event event = Unpack(entries_[kFirst + i]);
      entries_[kFirst + i] = Pack(event.time, next_sequence_++, event.payload);
    }
  }

  std::vector<Entry, LineAllocator<Entry>> entries_;
  std::size_t size_ = 0;
  std::uint32_t next_sequence_ = 0;
};

}  // namespace stepcast::engine
