// How many configurations a second one core forecasts, from the overrides to the row: loading,
// lowering, pricing, simulation with full overlap, and memory. Targets: 10,000 with framework
// `reference`, 3,000 with ddp and fsdp2.
//   bazel run //tests/benchmark:sweep_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

constexpr const char* kLlama = R"(
stepcast: 1
model: models/llama2-7b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

// 8 to 1,024 GPUs, three micro-batches, five sizes of buckets (fsdp2: five depths of prefetch).
std::vector<std::vector<std::string>> Grid(const std::string& framework) {
  std::vector<std::vector<std::string>> grid;
  for (const char* nodes : {"1", "2", "4", "8", "16", "32", "64", "128"}) {
    for (const char* micro_batch : {"1", "2", "4"}) {
      for (int i = 0; i < 5; ++i) {
        std::vector<std::string> set = {"data_parallel.framework=" + framework,
                                        std::string("cluster.nodes=") + nodes,
                                        std::string("training.micro_batch_size=") + micro_batch};
        if (framework == "fsdp2") {
          set.emplace_back("data_parallel.zero_stage=3");
          set.push_back("data_parallel.prefetch=" + std::to_string(i));
        } else {
          set.push_back("data_parallel.bucket_size=" + std::to_string(10 << i) + " MiB");
        }
        grid.push_back(std::move(set));
      }
    }
  }
  return grid;
}

void Sweep(benchmark::State& state, const char* framework) {
  const auto grid = Grid(framework);
  scenario::InputCache cache;
  forecast::Forecaster forecaster;
  for (auto _ : state) {
    for (const std::vector<std::string>& set : grid) {
      const auto scenario = scenario::LoadText(kLlama, "benchmark", set, cache);
      if (!scenario) {
        std::fputs(Format(scenario.error()).c_str(), stderr);
        std::abort();
      }
      benchmark::DoNotOptimize(forecaster.Evaluate(*scenario));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(grid.size()));
}
BENCHMARK_CAPTURE(Sweep, reference, "reference")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Sweep, ddp, "ddp")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Sweep, fsdp2, "fsdp2")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
