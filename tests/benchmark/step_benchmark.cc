// The time of one forecast from a loaded scenario: lowering, pricing, simulation, summary.
//   bazel run //tests/benchmark:step_benchmark

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/base/diagnostic.h"
#include "src/cost/price.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "src/simulate/simulate.h"

namespace stepcast {
namespace {

// 32 equal layers, DDP, 512 ranks on one kind of link.
constexpr const char* kDdpList = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 32, parameters: [16777216, 16777216, 4096], forward: 1 ms,
       backward: 2 ms, activation: 64 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 512, memory: 80 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

// The same depth as real kernels: Llama-2 7B, DDP, on 64 DGX H100.
constexpr const char* kDdpLlama = R"(
stepcast: 1
model: models/llama2-7b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 64}
training: {sequence_length: 4096, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

constexpr const char* kFsdp2Llama = R"(
stepcast: 1
model: models/llama3.1-8b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 16}
training: {sequence_length: 8192, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

// Llama-3.1 405B on 16,384 GPUs, as in Dubey et al. 2024 (arXiv 2407.21783), Table 4: tensor
// parallelism over eight GPUs and a pipeline of sixteen stages, of which the first and the last
// have one layer less.
constexpr const char* kLlama405b = R"(
stepcast: 1
model: models/llama3.1-405b.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2048}
training: {sequence_length: 8192, micro_batch_size: 1, gradient_accumulation: 16, precision: bf16,
           optimizer: adamw}
parallelism: {tensor: 8, sequence_parallel: true, pipeline: 16,
              stage_layers: [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]}
data_parallel: {zero_stage: 1, framework: megatron}
)";

scenario::Scenario Loaded(const char* text) {
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(text, "benchmark", {}, cache);
  if (!scenario) {
    std::fputs(Format(scenario.error()).c_str(), stderr);
    std::abort();
  }
  return std::move(*scenario);
}

void ForecastAt(benchmark::State& state, const char* text, scenario::Fidelity network) {
  scenario::Scenario scenario = Loaded(text);
  scenario.network = network;
  for (auto _ : state) {
    auto run = forecast::Simulate(scenario);
    benchmark::DoNotOptimize(run);
  }
}
void Forecast(benchmark::State& state, const char* text) {
  ForecastAt(state, text, scenario::Fidelity::kAnalytic);
}
BENCHMARK_CAPTURE(Forecast, ddp_32_layers_512_ranks, kDdpList)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Forecast, ddp_llama2_7b_512_ranks, kDdpLlama)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Forecast, fsdp2_llama3_8b_128_ranks, kFsdp2Llama)->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(Forecast, megatron_llama3_405b_16384_ranks, kLlama405b)
    ->Unit(benchmark::kMillisecond);

// Like a row of a sweep: cached results of earlier forecasts are reused.
void Row(benchmark::State& state, const char* text) {
  const scenario::Scenario scenario = Loaded(text);
  forecast::Forecaster forecaster;
  for (auto _ : state) {
    auto row = forecaster.Evaluate(scenario);
    benchmark::DoNotOptimize(row);
  }
}
BENCHMARK_CAPTURE(Row, fsdp2_llama3_8b_128_ranks, kFsdp2Llama)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Row, megatron_llama3_405b_16384_ranks, kLlama405b)->Unit(benchmark::kMillisecond);

// Collectives as flows on the cluster's links, for classes of ranks.
void ForecastFlows(benchmark::State& state, const char* text) {
  ForecastAt(state, text, scenario::Fidelity::kFlow);
}
BENCHMARK_CAPTURE(ForecastFlows, ddp_32_layers_512_ranks, kDdpList)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ForecastFlows, ddp_llama2_7b_512_ranks, kDdpLlama)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ForecastFlows, fsdp2_llama3_8b_128_ranks, kFsdp2Llama)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ForecastFlows, megatron_llama3_405b_16384_ranks, kLlama405b)
    ->Unit(benchmark::kMillisecond);

// The parts of the largest forecast.
void Lower(benchmark::State& state) {
  const scenario::Scenario scenario = Loaded(kFsdp2Llama);
  std::size_t instructions = 0;
  for (auto _ : state) {
    const auto program = lowering::LowerRank(scenario);
    instructions = program.step.size();
  }
  state.counters["instructions"] = static_cast<double>(instructions);
}
BENCHMARK(Lower)->Unit(benchmark::kMillisecond);

void Price(benchmark::State& state) {
  const scenario::Scenario scenario = Loaded(kFsdp2Llama);
  const auto program = lowering::LowerRank(scenario);
  for (auto _ : state) benchmark::DoNotOptimize(cost::Price(program, scenario));
}
BENCHMARK(Price)->Unit(benchmark::kMillisecond);

void SimulateThreeSteps(benchmark::State& state) {
  const scenario::Scenario scenario = Loaded(kFsdp2Llama);
  const auto program = lowering::LowerRank(scenario);
  const auto prices = cost::Price(program, scenario);
  const simulate::RankClass ranks{.program = &program, .prices = &*prices, .representative = 0};
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate::Simulate({&ranks, 1}, {.steps = 3, .barrier = false}));
  }
}
BENCHMARK(SimulateThreeSteps)->Unit(benchmark::kMillisecond);

void Validate(benchmark::State& state) {
  const auto program = lowering::LowerRank(Loaded(kFsdp2Llama));
  for (auto _ : state) benchmark::DoNotOptimize(program::Validate(program));
}
BENCHMARK(Validate)->Unit(benchmark::kMillisecond);

void LoadScenario(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Loaded(kFsdp2Llama));
}
BENCHMARK(LoadScenario)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
