#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/schedule_check.h"
#include "src/scenario/load.h"

// Pipelines whose times follow from their schedule: equal stages and given layer times.
namespace stepcast::forecast {
namespace {

struct Pipeline {
  int stages = 2;
  int data = 1;
  int micro_batches = 1;
  int blocks = 1;                 // of each stage
  int forward = 1, backward = 2;  // of a block, microseconds
  std::string schedule = "1f1b";
  std::string framework = "reference";
  std::string output = "0 B";
  std::string bandwidth = "25 GB/s";
  std::string network = "analytic";
  int weight = 1;          // of `backward`
  int virtual_stages = 1;  // chunks of each stage
  bool barrier = false;    // otherwise each stage begins its next step when it can
};

forecast::Run RunOf(const Pipeline& pipeline) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model:
  kind: layers
  layers: [{{name: block, repeat: {}, parameters: [8], forward: {} us, backward: {} us,
             backward_weight: {} us, activation: 1 KiB, output: {}}}]
  optimizer_step: 0 us
cluster:
  topology: {{kind: flat, devices: {}, memory: 1 GiB, link: {{latency: 0 us, bandwidth: {}}}}}
  network: {}
training: {{sequence_length: 1, micro_batch_size: 1, gradient_accumulation: {}, precision: bf16,
            optimizer: sgd, step_barrier: {}}}
parallelism: {{pipeline: {}, schedule: {}, virtual_stages: {}}}
data_parallel: {{zero_stage: 0, framework: {}}}
)",
      pipeline.blocks * pipeline.stages * pipeline.virtual_stages, pipeline.forward,
      pipeline.backward, std::min(pipeline.weight, pipeline.backward), pipeline.output,
      pipeline.stages * pipeline.data, pipeline.bandwidth, pipeline.network, pipeline.micro_batches,
      pipeline.barrier, pipeline.stages, pipeline.schedule, pipeline.virtual_stages,
      pipeline.framework);
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error())) << text;
  auto run = Simulate(*scenario);
  EXPECT_TRUE(run.has_value()) << (run ? "" : Format(run.error()));
  return *std::move(run);
}

Pipeline Any() {
  Pipeline pipeline;
  pipeline.stages = *rc::gen::inRange(2, 6);
  pipeline.micro_batches = *rc::gen::inRange(1, 12);
  pipeline.blocks = *rc::gen::inRange(1, 4);
  pipeline.forward = *rc::gen::inRange(1, 50);
  pipeline.backward = *rc::gen::inRange(1, 50);
  pipeline.schedule = *rc::gen::element<std::string>("1f1b", "gpipe");
  if (pipeline.schedule == "1f1b") {
    pipeline.framework = *rc::gen::element<std::string>("reference", "megatron");
  }
  return pipeline;
}

// GPipe (arXiv 1811.06965) and 1F1B (arXiv 2104.04473): with free messages a step takes M + P - 1
// times a stage's forward and backward, of which P - 1 are bubble.
RC_GTEST_PROP(Pipelines, TakeTheTimeOfTheirSchedule, ()) {
  const Pipeline pipeline = Any();
  const forecast::Run run = RunOf(pipeline);
  const Time pass =
      pipeline.blocks * (Microseconds(pipeline.forward) + Microseconds(pipeline.backward));
  RC_ASSERT(run.forecast.step_time == (pipeline.micro_batches + pipeline.stages - 1) * pass);
  RC_ASSERT(static_cast<int>(run.forecast.classes.size()) == pipeline.stages);
  for (const ClassForecast& own : run.forecast.classes) {
    RC_ASSERT(own.time.pipeline_bubble == (pipeline.stages - 1) * pass);
    Time sum;
    for (const TimePart& part : PartsOf(own.time)) sum += part.time;
    RC_ASSERT(sum == run.forecast.step_time);
  }
}

// Any of the schedules, timed as in the papers' drawings.
struct Drawn {
  Drawn() {
    pipeline.stages = *rc::gen::inRange(2, 5);
    pipeline.micro_batches = *rc::gen::inRange(1, 4) * pipeline.stages;
    pipeline.blocks = *rc::gen::inRange(1, 3);
    pipeline.forward = *rc::gen::inRange(1, 50);
    pipeline.backward = *rc::gen::inRange(2, 50);
    pipeline.weight = *rc::gen::inRange(1, pipeline.backward);
    const auto names = parallel::NamedSchedules();
    const parallel::NamedSchedule* named = &names[*rc::gen::inRange<std::size_t>(0, names.size())];
    if (named->two_copies) named = parallel::FindSchedule("zb_v");
    if (named->name == "dualpipe_v") {
      pipeline.micro_batches = std::max(pipeline.micro_batches, 2 * pipeline.stages);
    }
    pipeline.schedule = named->name;
    pipeline.barrier = true;
    pipeline.virtual_stages = named->chunks == 0 ? *rc::gen::inRange(1, 4) : named->chunks;
    schedule = named->build({pipeline.stages, pipeline.micro_batches, pipeline.virtual_stages});
    timing = parallel::Time(
        schedule, {.forward = pipeline.blocks * pipeline.forward,
                   .backward_input = pipeline.blocks * (pipeline.backward - pipeline.weight),
                   .backward_weight = pipeline.blocks * pipeline.weight});
  }
  Pipeline pipeline;
  parallel::PipelineSchedule schedule;
  parallel::ScheduleTiming timing;
};

// With equal stages and free messages, the simulation agrees with the drawing in step time, each
// stage's idle time, and micro-batches in flight. The drawings' closed forms are tested in
// parallel/pipeline_schedule_test.cc and zero_bubble_schedules_test.cc. Memory for the weight
// gradients stays until they are computed.
RC_GTEST_PROP(Pipelines, AreAsTheyAreDrawn, ()) {
  const Drawn drawn;
  const forecast::Run run = RunOf(drawn.pipeline);
  const std::vector<int> in_flight = parallel::MostInFlight(drawn.schedule);
  RC_ASSERT(run.forecast.step_time == Microseconds(drawn.timing.slots));
  for (const ClassForecast& own : run.forecast.classes) {
    const auto stage = static_cast<std::size_t>(own.label.stage);
    // A stage's wait for the others at the end of a step is not a wait for a message.
    RC_ASSERT(own.time.pipeline_bubble + own.time.idle + own.time.imbalance ==
              Microseconds(drawn.timing.idle[stage]));
    RC_ASSERT(own.in_flight == in_flight[stage]);
    const Bytes activations =
        own.memory.at_peak[static_cast<std::size_t>(program::Category::kActivation)];
    RC_ASSERT(activations == in_flight[stage] * drawn.pipeline.blocks * KiB(1));
  }
}

// 1F1B holds the activations of min(M, P - s) micro-batches on stage s, and GPipe those of all M.
RC_GTEST_PROP(Pipelines, HoldTheActivationsInFlight, ()) {
  Pipeline pipeline = Any();
  pipeline.framework = "reference";
  const forecast::Run run = RunOf(pipeline);
  for (const ClassForecast& own : run.forecast.classes) {
    const int in_flight = pipeline.schedule == "gpipe"
                              ? pipeline.micro_batches
                              : std::min(pipeline.micro_batches, pipeline.stages - own.label.stage);
    RC_ASSERT(own.in_flight == in_flight);
    const Bytes activations =
        own.memory.at_peak[static_cast<std::size_t>(program::Category::kActivation)];
    RC_ASSERT(activations == in_flight * pipeline.blocks * KiB(1));
  }
}

// Simulating every rank, with messages as flows, gives the result of one rank per stage.
RC_GTEST_PROP(Pipelines, FlowOnAllRanksIsFlowOnStages, ()) {
  Pipeline pipeline = Any();
  pipeline.data = *rc::gen::inRange(1, 4);
  pipeline.output = *rc::gen::element<std::string>("1 KiB", "1 MiB");
  pipeline.bandwidth = *rc::gen::element<std::string>("1 GB/s", "100 GB/s");
  const forecast::Run analytic = RunOf(pipeline);
  pipeline.network = "flow";
  const forecast::Run flow = RunOf(pipeline);
  RC_ASSERT(flow.forecast.step_time.seconds() <= analytic.forecast.step_time.seconds() * 1.001);
  RC_ASSERT(flow.forecast.step_time.seconds() >= analytic.forecast.step_time.seconds() * 0.999);
}

// By hand: two stages, two micro-batches, f = 10 us, b = 20 us; a message of 1 MB takes 40 us at 25
// GB/s (and 0 us besides). Megatron waits for every message on the compute stream:
//   stage 0  F0 [0,10) send [10,50) F1 [50,60) exchange F1, B0
//   stage 1  receive F0 until 50, F0 [50,60) B0 [60,80) exchange B0, F1 [80,120)
//            F1 [120,130) B1 [130,150) send [150,190)
//   stage 0  B0 [120,140) receive B1 until 190, B1 [190,210)
TEST(Pipelines, MegatronWaitsForItsMessages) {
  const forecast::Run run = RunOf({.stages = 2,
                                   .micro_batches = 2,
                                   .forward = 10,
                                   .backward = 20,
                                   .framework = "megatron",
                                   .output = "1 MB"});
  EXPECT_EQ(run.forecast.step_time, Microseconds(210));
}

// The textbook's sends and receives run concurrently with the passes. A receive is posted when the
// pass before its own begins, so that of F1 on stage 1 is posted at 60 us, with B0:
//   stage 0  F0 [0,10) F1 [10,20), sends [10,50) and [60,100)
//   stage 1  F0 [50,60) B0 [60,80) F1 [100,110) B1 [110,130), sends [80,120) and [130,170)
//   stage 0  B0 [120,140) B1 [170,190)
TEST(Pipelines, TheTextbookOverlapsThem) {
  const forecast::Run run =
      RunOf({.stages = 2, .micro_batches = 2, .forward = 10, .backward = 20, .output = "1 MB"});
  EXPECT_EQ(run.forecast.step_time, Microseconds(190));
}

}  // namespace
}  // namespace stepcast::forecast
