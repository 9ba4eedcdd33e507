// The time of lowering Llama-2 7B on 8 DGX H100.
//   bazel run //tests/benchmark:lowering_benchmark
// "Lower/..." lowers one program. "Plans/..." lowers programs of 1 to 4 micro-batches, with and
// without full recomputation, like the rows of sweep_benchmark: the time is the mean per program,
// and `ns_an_instruction` is per instruction. "Validate/..." proves the same programs free of
// races.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/program/program.h"
#include "src/program/validator.h"
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
                          const std::vector<std::string>& more) {
  scenario::InputCache cache;
  std::vector<std::string> set = {"data_parallel.framework=" + framework,
                                  "data_parallel.zero_stage=" + stage};
  if (framework != "fsdp2") set.emplace_back("data_parallel.bucket_size=25 MiB");
  set.insert(set.end(), more.begin(), more.end());
  auto scenario = scenario::LoadText(kLlama, "benchmark", set, cache);
  if (!scenario) {
    std::fputs(Format(scenario.error()).c_str(), stderr);
    std::abort();
  }
  return std::move(*scenario);
}

std::vector<model::LayerWork> WorksOf(const scenario::Scenario& scenario) {
  return model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan));
}

std::size_t InstructionsOf(const program::Program& program) {
  return program.prologue.size() + program.step.size();
}

struct Plan {
  scenario::Scenario scenario;
  std::vector<model::LayerWork> works;
};

std::vector<Plan> PlansOf(const char* framework, const char* stage) {
  std::vector<Plan> plans;
  for (const char* accumulation : {"1", "2", "4"}) {
    for (const char* checkpointing : {"none", "full"}) {
      scenario::Scenario scenario =
          Loaded(framework, stage,
                 {std::string("training.gradient_accumulation=") + accumulation,
                  std::string("training.activation_checkpointing=") + checkpointing});
      std::vector<model::LayerWork> works = WorksOf(scenario);
      plans.push_back({.scenario = std::move(scenario), .works = std::move(works)});
    }
  }
  return plans;
}

// Reports the time per program and per instruction.
void Count(benchmark::State& state, std::size_t instructions) {
  const auto all = static_cast<double>(instructions);
  state.counters["instructions"] = all / static_cast<double>(state.iterations());
  state.counters["ns_an_instruction"] =
      benchmark::Counter(all / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Lower(benchmark::State& state, const char* framework, const char* stage) {
  const scenario::Scenario scenario = Loaded(framework, stage, {});
  const auto works = WorksOf(scenario);
  std::size_t instructions = 0;
  for (auto _ : state) {
    instructions += InstructionsOf(lowering::LowerRank(scenario, {.works = &works}));
  }
  Count(state, instructions);
}

void Plans(benchmark::State& state, const char* framework, const char* stage) {
  const std::vector<Plan> plans = PlansOf(framework, stage);
  std::size_t instructions = 0, next = 0;
  for (auto _ : state) {
    const Plan& plan = plans[next++ % plans.size()];
    instructions += InstructionsOf(lowering::LowerRank(plan.scenario, {.works = &plan.works}));
  }
  Count(state, instructions);
}

void Validate(benchmark::State& state, const char* framework, const char* stage) {
  std::vector<program::Program> programs;
  for (const Plan& plan : PlansOf(framework, stage)) {
    programs.push_back(lowering::LowerRank(plan.scenario, {.works = &plan.works}));
  }
  std::size_t instructions = 0, next = 0;
  for (auto _ : state) {
    const program::Program& program = programs[next++ % programs.size()];
    if (!program::Validate(program).empty()) std::abort();
    instructions += InstructionsOf(program);
  }
  Count(state, instructions);
}

BENCHMARK_CAPTURE(Lower, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, reference_1, "reference", "1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Lower, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plans, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plans, reference_1, "reference", "1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plans, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plans, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Plans, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Validate, reference_0, "reference", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Validate, reference_1, "reference", "1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Validate, reference_3, "reference", "3")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Validate, ddp, "ddp", "0")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Validate, fsdp2, "fsdp2", "3")->Unit(benchmark::kMicrosecond);

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
