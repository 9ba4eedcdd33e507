// The time to model NCCL's choices.

#include <cstdint>

#include "benchmark/benchmark.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/graphs.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"
#include "tests/examples/sample_communicators.h"

namespace stepcast::nccl {
namespace {

void Choose(benchmark::State& state) {
  const CommunicatorModel model(H100(static_cast<int>(state.range(0))));
  std::int64_t bytes = 1;
  for (auto _ : state) {
    bytes = bytes * 5 % 8'589'934'583;
    benchmark::DoNotOptimize(
        model.Choose({.function = Function::kAllReduce, .bytes = Bytes(bytes)}));
  }
}
BENCHMARK(Choose)->Arg(1)->Arg(16);

void MakeModel(benchmark::State& state) {
  const Communicator communicator = H100(4);
  for (auto _ : state) benchmark::DoNotOptimize(CommunicatorModel(communicator));
}
BENCHMARK(MakeModel);

// The graph search, in one node and across nodes.
void Search(benchmark::State& state) {
  const Node node = DgxH100();
  for (auto _ : state) {
    benchmark::DoNotOptimize(FindGraphs(node, static_cast<int>(state.range(0)), Version::kV230));
  }
}
BENCHMARK(Search)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast::nccl
