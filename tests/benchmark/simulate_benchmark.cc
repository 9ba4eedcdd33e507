// The time to validate and to simulate a step program, on a synthetic sharded step of 32 layers.
// Targets: about 100 ns per instruction for each. One item is one issued instruction.

#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "src/base/check.h"
#include "src/program/validator.h"
#include "src/simulate/simulate.h"
#include "tests/benchmark/synthetic_step.h"

namespace stepcast::simulate {
namespace {

using benchmark_programs::PricedProgram;
using benchmark_programs::ShardedStep;

constexpr int kLayers = 32;
constexpr int kKernelsPerLayer = 60;

std::int64_t Issued(const PricedProgram& priced, int steps) {
  return static_cast<std::int64_t>(priced.program.prologue.size() +
                                   priced.program.step.size() * static_cast<std::size_t>(steps));
}

void RunSteps(benchmark::State& state, int classes, Recording recording) {
  const int steps = static_cast<int>(state.range(0));
  const PricedProgram priced = ShardedStep(kLayers, kKernelsPerLayer);
  std::vector<RankClass> ranks;
  for (int c = 0; c < classes; ++c) ranks.push_back({&priced.program, &priced.prices, c});
  Simulator simulator;
  for (auto _ : state) {
    const auto timelines = simulator.Run(ranks, {.steps = steps, .recording = recording});
    STEPCAST_CHECK(timelines.has_value(), "the step does not deadlock");
    benchmark::DoNotOptimize(timelines->front().step_ends.data());
  }
  state.SetItemsProcessed(state.iterations() * classes * Issued(priced, steps));
}

void BM_SimulateWithRecords(benchmark::State& state) { RunSteps(state, 1, Recording::kAll); }
void BM_SimulateStepEndsOnly(benchmark::State& state) { RunSteps(state, 1, Recording::kNone); }
void BM_SimulateEightClasses(benchmark::State& state) { RunSteps(state, 8, Recording::kNone); }

// 16 different stages with 100,000 instructions in total, as in a 405B step: target 100 ms.
void BM_SimulatePipeline(benchmark::State& state) {
  constexpr int kStages = 16, kMicroBatches = 32, kKernels = 65;
  std::vector<PricedProgram> stages;
  for (int s = 0; s < kStages; ++s) {
    stages.push_back(benchmark_programs::PipelineStage(s, kStages, kMicroBatches, kKernels));
  }
  std::vector<RankClass> ranks;
  std::int64_t instructions = 0;
  for (int s = 0; s < kStages; ++s) {
    ranks.push_back(
        {.program = &stages[s].program, .prices = &stages[s].prices, .representative = s});
    instructions += static_cast<std::int64_t>(stages[s].program.step.size());
  }
  Simulator simulator;
  for (auto _ : state) {
    const auto timelines =
        simulator.Run(ranks, {.steps = 4, .recording = Recording::kNone, .until_repetition = true});
    STEPCAST_CHECK(timelines.has_value(), "the step does not deadlock");
    benchmark::DoNotOptimize(timelines->front().step_ends.data());
  }
  state.counters["instructions"] = static_cast<double>(instructions);
  const Repetition* repetition = simulator.repetition();
  state.counters["steps run"] = repetition != nullptr ? repetition->step + 1 : 4;
}

void BM_Validate(benchmark::State& state) {
  const PricedProgram priced = ShardedStep(kLayers, kKernelsPerLayer);
  for (auto _ : state) {
    const auto violations = program::Validate(priced.program);
    STEPCAST_CHECK(violations.empty(), "the step is sound");
  }
  // The validator processes the step twice.
  state.SetItemsProcessed(state.iterations() * Issued(priced, 2));
}

BENCHMARK(BM_SimulateWithRecords)->Arg(1)->Arg(3)->Arg(10);
BENCHMARK(BM_SimulateStepEndsOnly)->Arg(1)->Arg(3)->Arg(10);
BENCHMARK(BM_SimulateEightClasses)->Arg(3);
BENCHMARK(BM_SimulatePipeline)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Validate);

}  // namespace
}  // namespace stepcast::simulate
