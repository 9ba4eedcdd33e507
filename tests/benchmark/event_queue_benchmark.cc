// The hold model: with n events outstanding, take the earliest and push one at a random later time.
// One iteration is one pop and one push. The target is 100 ns at n = 32,768.
//
// EventQueue is compared with Boost.Heap's d-ary heaps and pairing heap, which store (time,
// sequence) as two fields. It is also compared with a calendar queue (R. Brown, CACM 31(10), 1988)
// whose buckets have the best width for the model. Distances are uniform, or of all magnitudes
// alike, as in a simulation with latencies of microseconds and kernels of milliseconds.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "boost/heap/d_ary_heap.hpp"
#include "boost/heap/pairing_heap.hpp"
#include "src/base/time.h"
#include "src/engine/event_queue.h"

namespace stepcast::engine {
namespace {

// Steele, Lea and Flood's SplitMix64, with few operations, so that the queue dominates the time.
class Random {
 public:
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  Time Distance() { return Picoseconds(static_cast<std::int64_t>(Next() >> 40)); }
  Time DistanceOfAnyMagnitude() {
    const std::uint64_t bits = Next();
    return Picoseconds(static_cast<std::int64_t>(bits >> (40 + bits % 20)));
  }

 private:
  std::uint64_t state_ = 1;
};

template <auto kDistance>
void BM_EventQueueHold(benchmark::State& state) {
  Random random;
  EventQueue<std::uint32_t> queue;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.Push((random.*kDistance)(), static_cast<std::uint32_t>(i));
  }
  for (auto _ : state) {
    const auto event = queue.Pop();
    queue.Push(event.time + (random.*kDistance)(), event.payload);
  }
  state.SetItemsProcessed(state.iterations());
}

struct BoostEvent {
  Time time;
  std::uint32_t sequence;
  std::uint32_t payload;
  friend bool operator<(const BoostEvent& a, const BoostEvent& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
};

template <typename Heap>
void BoostHeapHold(benchmark::State& state) {
  Random random;
  Heap queue;
  std::uint32_t sequence = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.push({random.Distance(), sequence++, static_cast<std::uint32_t>(i)});
  }
  for (auto _ : state) {
    const BoostEvent event = queue.top();
    queue.pop();
    queue.push({event.time + random.Distance(), sequence++, event.payload});
  }
  state.SetItemsProcessed(state.iterations());
}

template <int kArity>
void BM_BoostHeapHold(benchmark::State& state) {
  BoostHeapHold<boost::heap::d_ary_heap<BoostEvent, boost::heap::arity<kArity>>>(state);
}
void BM_PairingHeapHold(benchmark::State& state) {
  BoostHeapHold<boost::heap::pairing_heap<BoostEvent>>(state);
}

// About as many buckets as events; the model's events are spread over 2^24 ps.
class CalendarQueue {
 public:
  explicit CalendarQueue(std::int64_t events) {
    const int bits = std::bit_width(static_cast<std::uint64_t>(events));
    shift_ = std::max(0, 24 - bits);
    buckets_.resize(std::size_t{1} << bits);
    year_end_ = std::int64_t{1} << shift_;
  }
  void Push(Time time, std::uint32_t payload) {
    const BoostEvent event = {time, sequence_++, payload};
    std::vector<BoostEvent>& bucket = BucketOf(time);
    // The earliest is at the end; `less` of a heap means later.
    bucket.insert(std::upper_bound(bucket.begin(), bucket.end(), event), event);
  }
  BoostEvent Pop() {
    for (;;) {
      std::vector<BoostEvent>& bucket = buckets_[today_];
      if (!bucket.empty() && bucket.back().time.picoseconds() < year_end_) {
        const BoostEvent event = bucket.back();
        bucket.pop_back();
        return event;
      }
      today_ = (today_ + 1) & (buckets_.size() - 1);
      year_end_ += std::int64_t{1} << shift_;
    }
  }

 private:
  std::vector<BoostEvent>& BucketOf(Time time) {
    return buckets_[static_cast<std::size_t>(time.picoseconds() >> shift_) & (buckets_.size() - 1)];
  }
  std::vector<std::vector<BoostEvent>> buckets_;
  int shift_ = 0;
  std::size_t today_ = 0;
  std::int64_t year_end_ = 0;
  std::uint32_t sequence_ = 0;
};

template <auto kDistance>
void BM_CalendarHold(benchmark::State& state) {
  Random random;
  CalendarQueue queue(state.range(0));
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.Push((random.*kDistance)(), static_cast<std::uint32_t>(i));
  }
  for (auto _ : state) {
    const BoostEvent event = queue.Pop();
    queue.Push(event.time + (random.*kDistance)(), event.payload);
  }
  state.SetItemsProcessed(state.iterations());
}

void Outstanding(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t n : {1, 16, 256, 4096, 32768, 262144, 1000000}) benchmark->Arg(n);
}

BENCHMARK_TEMPLATE(BM_EventQueueHold, &Random::Distance)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_CalendarHold, &Random::Distance)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_EventQueueHold, &Random::DistanceOfAnyMagnitude)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_CalendarHold, &Random::DistanceOfAnyMagnitude)->Apply(Outstanding);
BENCHMARK(BM_PairingHeapHold)->Arg(16)->Arg(4096)->Arg(262144);
BENCHMARK_TEMPLATE(BM_BoostHeapHold, 2)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_BoostHeapHold, 4)->Apply(Outstanding);

}  // namespace
}  // namespace stepcast::engine
