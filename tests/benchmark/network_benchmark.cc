// An uncontended ring all-reduce of 1 GiB over 4,096 ranks on one channel and one switch; every
// link has its own latency: 33.5 million messages. Targets on one core: message by message under 4
// s and 300 MB, in closed form under 1 ms.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/collective/ring.h"
#include "src/network/analytic.h"
#include "src/network/message.h"
#include "src/network/traffic.h"
#include "tests/examples/sample_networks.h"

namespace stepcast::network {
namespace {

struct Setting {
  Network network;
  std::vector<int> places;
  std::unique_ptr<collective::Ring> ring;
};

// Latencies from 1 to 5 us, 25 GB/s. Ranks in ascending order.
Setting Make(int ranks) {
  std::mt19937_64 random(1);
  std::vector<Time> latencies;
  for (int rank = 0; rank < ranks; ++rank) {
    latencies.push_back(
        Picoseconds(std::uniform_int_distribution<std::int64_t>(1'000'000, 5'000'000)(random)));
  }
  const std::vector<Bandwidth> bandwidths(latencies.size(), Bandwidth::GigabytesPerSecond(25));
  std::vector<int> order(latencies.size());
  std::iota(order.begin(), order.end(), 0);
  Setting setting{MakeStar(latencies, bandwidths), order, nullptr};
  setting.ring = std::make_unique<collective::Ring>(
      collective::Ring::Options{CollectiveKind::kAllReduce, ranks * KiB(256), {order}});
  return setting;
}

void BM_RingMessages(benchmark::State& state) {
  const Setting setting = Make(static_cast<int>(state.range(0)));
  std::int64_t messages = 0;
  for (auto _ : state) {
    const Traffic traffic = Traffic::Make(*setting.ring, setting.network, setting.places).value();
    const MessageRun run = RunMessages(traffic);
    messages += run.messages;
    benchmark::DoNotOptimize(run.ends[0]);
  }
  state.SetItemsProcessed(messages);
}
BENCHMARK(BM_RingMessages)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

void BM_RingAnalytic(benchmark::State& state) {
  const Setting setting = Make(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const Traffic traffic = Traffic::Make(*setting.ring, setting.network, setting.places).value();
    benchmark::DoNotOptimize(PriceAnalytically(traffic).total);
  }
}
BENCHMARK(BM_RingAnalytic)->Arg(512)->Arg(4096)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepcast::network
