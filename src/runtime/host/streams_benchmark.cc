// Measures the overhead of the host backend, without the work of a step.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "src/base/time.h"
#include "src/runtime/host/clock.h"
#include "src/runtime/host/streams.h"

namespace stepcast::runtime::host {
namespace {

Attempt<void> Nothing(Time& /*start*/) { return {}; }

// Operations alternate between two streams, ordered by events: one thread finishes, another wakes
// up. Reports the time of each hand-over.
void HandOver(benchmark::State& state) {
  constexpr int kHandOvers = 200;
  const Clock clock;
  Streams streams(clock, 2, [](const Failure&) {});
  for (auto _ : state) {
    for (int i = 0; i < kHandOvers; ++i) {
      const auto stream = static_cast<std::uint16_t>(i % 2);
      const auto other = static_cast<std::uint16_t>(1 - i % 2);
      if (i > 0) streams.IssueWait(stream, streams.Now(other), 0);
      streams.Issue(stream, OperationId{}, Nothing);
    }
    streams.WaitForAll();
  }
  state.SetItemsProcessed(state.iterations() * kHandOvers);
}
BENCHMARK(HandOver)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Operations on one stream: the time that each takes on the host thread and on the stream's thread.
void InARow(benchmark::State& state) {
  constexpr int kOperations = 1000;
  const Clock clock;
  Streams streams(clock, 1, [](const Failure&) {});
  for (auto _ : state) {
    for (int i = 0; i < kOperations; ++i) streams.Issue(0, OperationId{}, Nothing);
    streams.WaitForAll();
  }
  state.SetItemsProcessed(state.iterations() * kOperations);
}
BENCHMARK(InARow)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The delay after which a sleep of 1 ms ends.
void SleepLateness(benchmark::State& state) {
  PrepareThreadForPreciseSleep();
  const Clock clock;
  std::vector<double> late;
  for (auto _ : state) {
    const Time end = clock.Now() + Milliseconds(1);
    clock.SleepUntil(end);
    late.push_back((clock.Now() - end).microseconds());
  }
  std::sort(late.begin(), late.end());
  state.counters["median_us"] = late[late.size() / 2];
  state.counters["p99_us"] = late[late.size() * 99 / 100];
}
BENCHMARK(SleepLateness)->UseRealTime()->Iterations(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepcast::runtime::host

BENCHMARK_MAIN();
