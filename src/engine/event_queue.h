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

// The pending events, earliest first. Events with equal times are returned in the order of their
// insertion, so a run does not depend on the layout of the heap.
//
// An event is a time and a payload of at most four bytes, such as an index with a tag. Events
// cannot be removed. If an event becomes invalid (for example, because an activity's end changes),
// the owner ignores it when it is popped.
//
// The heap is 4-ary and implicit. An entry has sixteen bytes, so the four children of a node fill
// one cache line. A pop prefetches the next level's cache lines.
// tests/benchmark/event_queue_benchmark.cc compares the queue with Boost.Heap, which is equally
// fast for heaps in the cache, and slower with a million events.
//
// Successively pushed events may have the same time, for example if hundreds of ranks end the same
// kernel. Events with the same time need only two entries in the heap: the first event, and a list
// of the other events (a burst). Each event of a burst is returned in constant time.
//
// Push and Pop take O(log n) and allocate only if the queue exceeds its maximum length so far.
template <typename Payload>
class EventQueue {
  static_assert(std::is_trivially_copyable_v<Payload>);
  static_assert(sizeof(Payload) == 4, "a payload must have four bytes");

 public:
  struct Event {
    Time time;
    Payload payload;
  };

  EventQueue() = default;
  // Creates an empty queue with sequence numbers from `first_sequence` on, for tests that exhaust
  // the sequence numbers. Results do not depend on `first_sequence`.
  explicit EventQueue(std::uint32_t first_sequence) : next_sequence_(first_sequence) {}

  static constexpr std::uint32_t kLastSequence = std::numeric_limits<std::uint32_t>::max() >> 1;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_ + in_bursts_; }
  void Clear() {
    size_ = 0;
    in_bursts_ = 0;
    links_.clear();
    free_link_ = kNone;
    open_link_ = kNone;
    last_time_ = Time::Max();
  }

  // Reserves memory for `count` events.
  void Reserve(std::size_t count) {
    if (kFirst + count + kArity > entries_.size()) entries_.resize(kFirst + count + kArity);
  }

  void Push(Time time, Payload payload) {
    if (time == last_time_) {
      PushLike(time, payload);
      return;
    }
    last_time_ = time;
    open_link_ = kNone;
    PushEntry(time, std::bit_cast<std::uint32_t>(payload), false);
  }

  // Returns the earliest event. Requires !empty().
  Event Top() const {
    const Entry& top = entries_[kFirst];
    return {Time::FromPicoseconds(top.time),
            top.is_burst() ? links_[top.content()].payload : std::bit_cast<Payload>(top.content())};
  }

  // Removes and returns the earliest event. Requires !empty().
  Event Pop() {
    STEPCAST_CHECK(size_ > 0, "an empty queue contains no event");
    Entry* const heap = entries_.data() + kFirst;
    const Event top = Top();
    if (heap[0].is_burst() && TakeFromBurst(heap[0])) return top;
    const Entry last = heap[--size_];
    // The end of the last cache line of children. This line is padded with entries that are later
    // than any event, so that the minimum of four needs no bounds check.
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
    // A sequence number, a bit that marks a burst, and the content: the payload, or the first link
    // of the burst. Sequence numbers are unique and in the order of insertion.
    std::uint64_t tie = 0;
    std::int64_t time = 0;
    bool is_burst() const { return (tie >> 32 & 1) != 0; }
    std::uint32_t content() const { return static_cast<std::uint32_t>(tie); }
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.time != b.time ? a.time < b.time : a.tie < b.tie;
    }
    friend bool operator<=(const Entry& a, const Entry& b) { return !(b < a); }
  };

  // An event in a burst.
  struct Link {
    Payload payload;
    std::uint32_t next;
  };

  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kArity = 4;
  // The number of unused entries before the root. The unused entries align the children of every
  // node to a cache line.
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

  static std::uint64_t Tie(std::uint32_t sequence, bool is_burst, std::uint32_t content) {
    return static_cast<std::uint64_t>(sequence) << 33 | static_cast<std::uint64_t>(is_burst) << 32 |
           content;
  }

  void PushEntry(Time time, std::uint32_t content, bool is_burst) {
    if (next_sequence_ >= kLastSequence) Renumber();
    if (kFirst + size_ + kArity >= entries_.size()) Reserve(2 * size_ + 64);
    const Entry entry = {Tie(next_sequence_++, is_burst, content), time.picoseconds()};
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

  // Pushes an event with the same time as the previously pushed event.
  void PushLike(Time time, Payload payload) {
    std::uint32_t link = free_link_;
    if (link == kNone) {
      link = static_cast<std::uint32_t>(links_.size());
      links_.push_back({payload, kNone});
    } else {
      free_link_ = links_[link].next;
      links_[link] = {payload, kNone};
    }
    if (open_link_ == kNone) {
      PushEntry(time, link, true);
    } else {
      links_[open_link_].next = link;
      ++in_bursts_;
    }
    open_link_ = link;
  }

  // Removes the first event of a burst. Returns false if the burst is then empty.
  bool TakeFromBurst(Entry& burst) {
    const std::uint32_t taken = burst.content();
    const std::uint32_t next = links_[taken].next;
    links_[taken].next = free_link_;
    free_link_ = taken;
    if (next == kNone) {
      if (open_link_ == taken) open_link_ = kNone;
      return false;
    }
    burst.tie = burst.tie >> 32 << 32 | next;
    --in_bursts_;
    return true;
  }

  // Returns the index of the earliest of four siblings. Branches only if times are equal.
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

  // Renumbers the pending events from 0 in the same order, and sorts them. Called when the sequence
  // numbers are exhausted, after two billion events.
  void Renumber() {
    std::sort(entries_.begin() + kFirst, entries_.begin() + kFirst + static_cast<long>(size_));
    next_sequence_ = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      Entry& entry = entries_[kFirst + i];
      entry.tie = Tie(next_sequence_++, entry.is_burst(), entry.content());
    }
  }

  std::vector<Entry, LineAllocator<Entry>> entries_;
  std::size_t size_ = 0;  // number of entries in the heap
  std::uint32_t next_sequence_ = 0;
  Time last_time_ = Time::Max();  // time of the last pushed event
  std::vector<Link> links_;
  std::uint32_t free_link_ = kNone;
  std::uint32_t open_link_ = kNone;  // last link of the burst that new events may join, or kNone
  std::size_t in_bursts_ = 0;        // number of events without an entry in the heap
};

}  // namespace stepcast::engine
