#include "src/validate/comparison.h"

#include <utility>

#include "gtest/gtest.h"
#include "src/scenario/load.h"

namespace stepcast::validate {
namespace {

scenario::Scenario TwoDevices() {
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(R"(
stepcast: 1
model:
  kind: layers
  layers: [{name: block, parameters: [250], forward: 5 ms, backward: 0 ms, activation: 0 B}]
  optimizer_step: 0 ms
cluster:
  topology: {kind: flat, devices: 2, memory: 1 GiB, link: {latency: 0 us, bandwidth: 1 GB/s}}
training: {sequence_length: 11, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)",
                                     "test", {}, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

// A forward kernel, then an all-reduce of 1,000 bytes on another stream; the host waits for it.
program::Program KernelAndAllReduce() {
  program::Program program;
  program.streams = {{"compute"}, {"comm"}};
  program.groups = {{"data", {0, 1}}};
  program.communicators = {{"data", 0}};
  program.events = {{{program.texts.Add("reduced")}}};
  program.kernels.resize(1);
  program.kernels[0].name = "block.forward";
  program.kernels[0].kind = KernelKind::kGiven;
  program.collectives = {{.kind = CollectiveKind::kAllReduce,
                          .communicator = 0,
                          .bytes = Bytes(1000),
                          .data_type = DataType::kFp32}};
  program.labels = {"block"};
  program.step = {
      {.opcode = program::Opcode::kKernel, .operand = 0, .label = 0},
      {.opcode = program::Opcode::kCollective, .stream = 1, .operand = 0},
      {.opcode = program::Opcode::kRecordEvent, .stream = 1, .operand = 0},
      {.opcode = program::Opcode::kHostWaitEvent, .operand = 0},
  };
  return program;
}

Time Ms(std::int64_t milliseconds) { return Milliseconds(milliseconds); }

// Adds one step to a timeline: start and end of the kernel, and end of the all-reduce. The
// all-reduce starts at the kernel's end, and the host waits for it from then on.
void AddStep(program::Timeline& timeline, Time kernel_start, Time kernel_end, Time reduced) {
  const auto step = static_cast<std::uint32_t>(timeline.step_ends.size());
  timeline.operations.push_back({0, step, kernel_start, kernel_start, kernel_start, kernel_end});
  timeline.operations.push_back({1, step, kernel_start, kernel_end, kernel_end, reduced});
  timeline.waits.push_back({3, step, kernel_end, reduced});
  timeline.step_ends.push_back(reduced);
}

RankRun Rank(int rank, program::Timeline timeline, Bytes peak) {
  RankRun run;
  run.place = {.rank = rank, .ranks = 2, .host = "here"};
  run.measurement.timeline = std::move(timeline);
  run.measurement.memory = {.peak = peak, .reserved = peak, .outside = Bytes(0)};
  return run;
}

// Three steps, of which the middle one has neighbors on both sides. Rank 0 ends its steps at 10, 20
// and 30 ms, rank 1 at 11, 22 and 33: the step lasts from 11 to 22 ms, and rank 1 is critical. On
// rank 1: idle [11, 12), the kernel [12, 18), the all-reduce [18, 22).
Execution MiddleStep() {
  program::Timeline first, second;
  AddStep(first, Ms(1), Ms(7), Ms(10));
  AddStep(first, Ms(10), Ms(17), Ms(20));
  AddStep(first, Ms(20), Ms(27), Ms(30));
  AddStep(second, Ms(1), Ms(7), Ms(11));
  AddStep(second, Ms(12), Ms(18), Ms(22));
  AddStep(second, Ms(22), Ms(29), Ms(33));
  return Summarise(TwoDevices(), {KernelAndAllReduce()},
                   {Rank(0, first, Bytes(100)), Rank(1, second, Bytes(80))}, false, "host",
                   {{"cpu", "test"}});
}

TEST(Summarise, AStepLastsFromTheEndOfTheOneBeforeOnTheLastRank) {
  const Execution execution = MiddleStep();
  ASSERT_EQ(execution.steps.size(), 1u);
  EXPECT_EQ(execution.steps[0].step, 1u);
  EXPECT_EQ(execution.steps[0].start, Ms(11));
  EXPECT_EQ(execution.steps[0].end, Ms(22));
  EXPECT_EQ(execution.critical_rank, 1);
  const forecast::Forecast& figures = execution.figures;
  EXPECT_EQ(figures.step_time, Ms(11));
  EXPECT_EQ(figures.time.phase[0], Ms(6));
  EXPECT_EQ(figures.time.exposed_communication, Ms(4));
  EXPECT_EQ(figures.time.idle, Ms(1));
  EXPECT_EQ(figures.communication_total, Ms(4));
  // 2 ranks x 11 tokens in 11 ms.
  EXPECT_NEAR(figures.tokens_per_second, 2000, 1e-6);
  ASSERT_EQ(figures.collectives.size(), 1u);
  EXPECT_EQ(figures.collectives[0].calls, 1);
  EXPECT_EQ(figures.collectives[0].total, Ms(4));
  EXPECT_EQ(figures.collectives[0].wire_bytes_per_rank, 1000);  // 2 (N - 1)/N of 1,000
  EXPECT_EQ(figures.memory.rank, 0);
  EXPECT_EQ(figures.memory.peak, Bytes(100));
}

TEST(Summarise, BetweenBarriersEachStepIsMeasuredByItself) {
  // Steps of 5, 3, 4 and 10 ms with pauses in between, which do not count.
  program::Timeline timeline;
  AddStep(timeline, Ms(0), Ms(2), Ms(5));
  AddStep(timeline, Ms(6), Ms(8), Ms(9));
  AddStep(timeline, Ms(20), Ms(22), Ms(24));
  AddStep(timeline, Ms(30), Ms(35), Ms(40));
  const Execution execution =
      Summarise(TwoDevices(), {KernelAndAllReduce()},
                {Rank(0, timeline, Bytes(1)), Rank(1, timeline, Bytes(1))}, true, "host", {});
  ASSERT_EQ(execution.steps.size(), 4u);
  EXPECT_EQ(execution.shortest, Ms(3));
  EXPECT_EQ(execution.longest, Ms(10));
  // The median of 3, 4, 5 and 10 is the lower middle one.
  EXPECT_EQ(execution.figures.step_time, Ms(4));
  EXPECT_EQ(execution.typical, 2u);
  EXPECT_EQ(execution.critical_rank, 0);
}

// The forecast has 5 ms for the kernel instead of 6, 8 for the all-reduce instead of 4, and no idle
// time.
forecast::Run Forecast() {
  forecast::Run run;
  forecast::ClassRun& own = run.classes.emplace_back();
  own.program = KernelAndAllReduce();
  AddStep(own.timeline, Ms(0), Ms(5), Ms(13));
  AddStep(own.timeline, Ms(13), Ms(18), Ms(26));
  run.first_step = 1;
  run.forecast.step_time = Ms(13);
  run.forecast.time.phase[0] = Ms(5);
  run.forecast.time.exposed_communication = Ms(8);
  run.forecast.communication_total = Ms(8);
  run.forecast.memory.peak = Bytes(90);
  return run;
}

TEST(Compare, PutsForecastAndMeasurementSideBySide) {
  const Comparison comparison = Compare(Forecast(), MiddleStep());
  EXPECT_EQ(comparison.step.difference(), Ms(2));
  EXPECT_NEAR(comparison.step_error(), 2.0 / 11, 1e-12);
  ASSERT_EQ(comparison.time.size(), 5u);
  EXPECT_EQ(comparison.time[0].difference(), Time() - Ms(1));  // forward
  EXPECT_EQ(comparison.time[3].difference(), Ms(4));           // exposed communication
  EXPECT_EQ(comparison.time[4].measured, Ms(1));               // idle
  EXPECT_EQ(comparison.peak.forecast, Bytes(90));
  EXPECT_EQ(comparison.peak.measured, Bytes(100));
  ASSERT_EQ(comparison.kinds.size(), 2u);
  EXPECT_EQ(comparison.kinds[0].name, "block.forward");
  EXPECT_EQ(comparison.kinds[0].forecast, Ms(5));
  EXPECT_EQ(comparison.kinds[0].measured, Ms(6));
  EXPECT_EQ(comparison.kinds[1].name, "all_reduce (data)");
  EXPECT_EQ(comparison.kinds[1].calls, 1);
}

TEST(Compare, TheLargestDifferenceComesFirst) {
  const Comparison comparison = Compare(Forecast(), MiddleStep());
  ASSERT_EQ(comparison.largest.size(), 2u);
  EXPECT_EQ(comparison.largest[0].instruction, 1u);
  EXPECT_EQ(comparison.largest[0].forecast_start, Ms(5));  // 18 - 13
  EXPECT_EQ(comparison.largest[0].measured_start, Ms(7));  // 18 - 11
  EXPECT_EQ(comparison.largest[0].forecast_duration, Ms(8));
  EXPECT_EQ(comparison.largest[0].measured_duration, Ms(4));
  EXPECT_EQ(comparison.largest[1].instruction, 0u);
}

}  // namespace
}  // namespace stepcast::validate
