// The hold model: with n events outstanding, take the earliest and push one a random distance
// later. One iteration is one pop and one push. The target is 100 ns at n = 32,768.
//
// EventQueue against Boost.Heap's d-ary heap of the same order, which is the nearest library: it
// keeps (time, sequence) as two fields and the nodes where the allocator puts them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "boost/heap/d_ary_heap.hpp"
#include "src/base/time.h"
#include "src/engine/event_queue.h"

namespace stepcast::engine {
namespace {

// Steele, Lea and Flood's SplitMix64: a few operations, so that the queue is what is timed.
class Random {
 public:
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  Time Distance() { return Picoseconds(static_cast<std::int64_t>(Next() >> 40)); }

 private:
  std::uint64_t state_ = 1;
};

void BM_EventQueueHold(benchmark::State& state) {
  Random random;
  EventQueue<std::uint32_t> queue;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.Push(random.Distance(), static_cast<std::uint32_t>(i));
  }
  for (auto _ : state) {
    const auto event = queue.Pop();
    queue.Push(event.time + random.Distance(), event.payload);
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

template <int kArity>
void BM_BoostHeapHold(benchmark::State& state) {
  Random random;
  boost::heap::d_ary_heap<BoostEvent, boost::heap::arity<kArity>> queue;
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

void Outstanding(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t n : {1, 16, 256, 4096, 32768, 262144, 1000000}) benchmark->Arg(n);
}

BENCHMARK(BM_EventQueueHold)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_BoostHeapHold, 2)->Apply(Outstanding);
BENCHMARK_TEMPLATE(BM_BoostHeapHold, 4)->Apply(Outstanding);

}  // namespace
}  // namespace stepcast::engine
