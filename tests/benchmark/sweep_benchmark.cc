// The number of configurations that one core forecasts per second: Llama-2 7B on 8 to 1,024 GPUs,
// with some 20,000 plans for each framework. The time is from the overrides to the row: loading,
// lowering, pricing, simulation with full overlap and buckets, and memory. Targets: 10,000 with
// framework `reference`, 3,000 with ddp and fsdp2.
//   bazel run //tests/benchmark:sweep_benchmark
// "Sweep/..." processes all rows once. "Sample/..." processes some of them, and "Ranks/..." all
// plans on one number of GPUs. "Command/..." is `sweep --csv --threads 1`, including the text that
// it prints.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cli/command_line.h"
#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"
#include "src/forecast/forecast.h"
#include "src/scenario/variants.h"

namespace stepcast {
namespace {

constexpr const char* kLlama = R"(
stepcast: 1
model: llama2-7b
cluster: {topology: dgx-h100, nodes: 1}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

// Numbers of nodes of 8 GPUs, 1 to 128.
std::vector<std::string> Nodes(int count) {
  std::vector<std::string> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(std::to_string(1 + 127 * i / (count - 1)));
  return nodes;
}

// From 4 MiB, each a quarter larger than the previous one.
std::vector<std::string> BucketSizes(int count) {
  std::vector<std::string> sizes;
  double size = 4;
  for (int i = 0; i < count; ++i, size *= 1.25) {
    sizes.push_back(std::to_string(static_cast<int>(size)) + " MiB");
  }
  return sizes;
}

// Axes as for `sweep --vary`: the last axis varies fastest.
std::vector<Axis> Grid(const std::string& framework) {
  const Axis batch = {"training.micro_batch_size", {"1", "2", "4", "8"}};
  const Axis accumulation = {"training.gradient_accumulation", {"1", "2", "4"}};
  const Axis checkpointing = {"training.activation_checkpointing", {"none", "full"}};
  if (framework == "reference") {  // 19,968
    return {{"data_parallel.framework", {"reference"}},
            {"data_parallel.zero_stage", {"0", "1", "2", "3"}},
            batch,
            accumulation,
            {"data_parallel.bucket_size", BucketSizes(26)},
            {"cluster.nodes", Nodes(16)}};
  }
  if (framework == "ddp") {  // 19,968
    return {{"data_parallel.framework", {"ddp"}},
            {"data_parallel.gradient_as_bucket_view", {"true", "false"}},
            batch,
            accumulation,
            checkpointing,
            {"data_parallel.bucket_size", BucketSizes(26)},
            {"cluster.nodes", Nodes(16)}};
  }
  return {{"data_parallel.framework", {"fsdp2"}},  // 20,160
          {"data_parallel.zero_stage", {"3"}},
          {"data_parallel.reshard_after_forward", {"true", "false", "8"}},
          batch,
          accumulation,
          checkpointing,
          {"data_parallel.prefetch", {"0", "1", "2", "3", "4"}},
          {"cluster.nodes", Nodes(56)}};
}

std::int64_t RowsOf(const std::vector<Axis>& grid) {
  std::int64_t rows = 1;
  for (const Axis& axis : grid) rows *= static_cast<std::int64_t>(axis.values.size());
  return rows;
}

std::vector<std::string> Overrides(const std::vector<Axis>& grid, std::int64_t row) {
  std::vector<std::string> set(grid.size());
  for (std::size_t i = grid.size(); i-- > 0;) {
    const auto count = static_cast<std::int64_t>(grid[i].values.size());
    set[i] = grid[i].key + "=" + grid[i].values[static_cast<std::size_t>(row % count)];
    row /= count;
  }
  return set;
}

// A file, since `sweep` reads one.
std::string ScenarioFile() {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
      "sweep_benchmark.yaml";
  std::ofstream(path) << kLlama;
  return path;
}

// Every `stride`-th block of rows; rows of a block differ only in the last axis.
void Run(benchmark::State& state, const std::vector<Axis>& grid, std::int64_t stride) {
  const std::string file = ScenarioFile();
  const auto block = static_cast<std::int64_t>(grid.back().values.size());
  std::int64_t rows = 0;
  for (auto _ : state) {
    scenario::InputCache cache;
    scenario::Variants variants(file, {}, cache);
    forecast::Forecaster forecaster;
    for (std::int64_t first = 0; first < RowsOf(grid); first += stride * block) {
      for (std::int64_t row = first; row < first + block; ++row, ++rows) {
        const auto scenario = variants.Load(Overrides(grid, row));
        if (!scenario) {
          std::fputs(Format(scenario.error()).c_str(), stderr);
          std::abort();
        }
        benchmark::DoNotOptimize(forecaster.Evaluate(**scenario));
      }
    }
  }
  std::filesystem::remove(file);
  state.SetItemsProcessed(rows);
}

void Sweep(benchmark::State& state, const char* framework) { Run(state, Grid(framework), 1); }
BENCHMARK_CAPTURE(Sweep, reference, "reference")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(Sweep, ddp, "ddp")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(Sweep, fsdp2, "fsdp2")->Unit(benchmark::kMillisecond)->Iterations(1);

// Every n-th block of rows, enough to show trends and effects of a change.
void Sample(benchmark::State& state, const char* framework) {
  Run(state, Grid(framework), state.range(0));
}
BENCHMARK_CAPTURE(Sample, reference, "reference")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->Arg(31)
    ->Arg(15)
    ->Arg(7);
BENCHMARK_CAPTURE(Sample, ddp, "ddp")->Unit(benchmark::kMillisecond)->Iterations(1)->Arg(31);
BENCHMARK_CAPTURE(Sample, fsdp2, "fsdp2")->Unit(benchmark::kMillisecond)->Iterations(1)->Arg(11);

// The same plans on 8, 64, 512 and 1,024 GPUs.
void Ranks(benchmark::State& state, const char* framework) {
  std::vector<Axis> grid = Grid(framework);
  grid.back().values = {std::to_string(state.range(0) / 8)};
  Run(state, grid, 1);
}
BENCHMARK_CAPTURE(Ranks, reference, "reference")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->Arg(16)
    ->Arg(128)
    ->Arg(1024);

// Every n-th value of the axis before the last.
void Command(benchmark::State& state, const char* framework) {
  const std::string file = ScenarioFile();
  std::vector<Axis> grid = Grid(framework);
  Axis& thinned = grid[grid.size() - 2];
  std::vector<std::string> values;
  for (std::size_t i = 0; i < thinned.values.size();
       i += static_cast<std::size_t>(state.range(0))) {
    values.push_back(thinned.values[i]);
  }
  thinned.values = std::move(values);
  std::vector<std::string> words = {"sweep", file, "--threads", "1", "--csv"};
  for (const Axis& axis : grid) {
    std::string text = axis.key;
    for (const std::string& value : axis.values) {
      text += (text.size() == axis.key.size() ? "=" : ",") + value;
    }
    words.insert(words.end(), {"--vary", std::move(text)});
  }
  for (auto _ : state) {
    const cli::Outcome outcome = cli::RunCommandLine(words, {.run_work = cli::RunOnThreads});
    if (outcome.status != 0) {
      std::fputs(outcome.messages.c_str(), stderr);
      std::abort();
    }
    benchmark::DoNotOptimize(outcome.output.size());
  }
  std::filesystem::remove(file);
  state.SetItemsProcessed(RowsOf(grid));
}
// The command works in a separate thread.
BENCHMARK_CAPTURE(Command, reference, "reference")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->Iterations(1)
    ->Arg(1)
    ->Arg(13);
BENCHMARK_CAPTURE(Command, ddp, "ddp")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->Iterations(1)
    ->Arg(1)
    ->Arg(13);
BENCHMARK_CAPTURE(Command, fsdp2, "fsdp2")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->Iterations(1)
    ->Arg(1)
    ->Arg(5);

}  // namespace
}  // namespace stepcast

// Like the command line (src/cli/main.cc): freed memory is kept.
int main(int count, char** words) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  benchmark::Initialize(&count, words);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
