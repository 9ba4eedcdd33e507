// What a row of a sweep pays for its program: Llama-2 7B on 8 DGX H100.
//   bazel run //tests/benchmark:lowering_benchmark
// "Lower" is what simulate does, "LowerBare" a sweep's row with other instructions than those
// before, "Resize" one on another number of nodes, "ResizeAgain" that for a technique which does
// not write down how its sizes follow from numbers of ranks.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/lowering/program_sizes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

constexpr const char* kLlama = R"(
stepcast: 1
model: models/llama2-7b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 8}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

scenario::Scenario Loaded(const std::string& framework, const std::string& stage,
                          const std::string& nodes) {
  scenario::InputCache cache;
  std::vector<std::string> set = {"data_parallel.framework=" + framework,
                                  "data_parallel.zero_stage=" + stage, "cluster.nodes=" + nodes};
  if (framework != "fsdp2") set.emplace_back("data_parallel.bucket_size=25 MiB");
  auto scenario = scenario::LoadText(kLlama, "benchmark", set, cache);
  if (!scenario) {
    std::fputs(Format(scenario.error()).c_str(), stderr);
    std::abort();
  }
  return std::move(*scenario);
}

std::vector<model::LayerWork> WorksOf(const scenario::Scenario& scenario) {
  return model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training));
}

void Lower(benchmark::State& state, const char* framework, const char* stage) {
  const scenario::Scenario scenario = Loaded(framework, stage, "8");
  const auto works = WorksOf(scenario);
  std::size_t instructions = 0;
  for (auto _ : state) {
    instructions = lowering::Lower(scenario, {.works = &works}).step.size();
  }
  state.counters["instructions"] = static_cast<double>(instructions);
}

void LowerBare(benchmark::State& state, const char* framework, const char* stage) {
  const scenario::Scenario scenario = Loaded(framework, stage, "8");
  const auto works = WorksOf(scenario);
  lowering::ProgramSizes sizes;
  program::Program program;
  for (auto _ : state) {
    program::Program spent = std::move(program);
    sizes.Clear();
    program = lowering::Lower(scenario,
                              {.works = &works, .bare = true, .sizes = &sizes, .spent = &spent});
  }
}

// Back and forth between two numbers of nodes.
void ResizeWith(benchmark::State& state, const char* framework, const char* stage, bool formulas) {
  const scenario::Scenario scenarios[] = {Loaded(framework, stage, "8"),
                                          Loaded(framework, stage, "9")};
  const auto works = WorksOf(scenarios[0]);
  lowering::ProgramSizes sizes;
  program::Program program =
      lowering::Lower(scenarios[0], {.works = &works, .bare = true, .sizes = &sizes});
  std::size_t next = 1;
  for (auto _ : state) {
    const bool same =
        lowering::Resize(scenarios[next], works, program, formulas ? &sizes : nullptr);
    STEPCAST_CHECK(same, "the same instructions on any number of nodes");
    next = 1 - next;
  }
}

void Resize(benchmark::State& state, const char* framework, const char* stage) {
  ResizeWith(state, framework, stage, true);
}

void ResizeAgain(benchmark::State& state, const char* framework, const char* stage) {
  ResizeWith(state, framework, stage, false);
}

BENCHMARK_CAPTURE(Lower, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LowerBare, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LowerBare, reference_1, "reference", "1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LowerBare, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LowerBare, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(LowerBare, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Resize, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Resize, reference_1, "reference", "1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Resize, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Resize, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Resize, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(ResizeAgain, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(ResizeAgain, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepcast
