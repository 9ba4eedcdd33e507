#include "src/parallel/pipeline_schedule.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"
#include "src/parallel/schedule_timing.h"

// Named schedules, against tables worked out by hand and the closed forms of papers.
namespace stepcast::parallel {
namespace {

struct Shape {
  int stages = *rc::gen::inRange(1, 12);
  int micro_batches = *rc::gen::inRange(1, 24);
};

PassDurations AnyDurations() {
  return {.forward = *rc::gen::inRange<std::int64_t>(1, 10),
          .backward_input = *rc::gen::inRange<std::int64_t>(1, 10),
          .backward_weight = *rc::gen::inRange<std::int64_t>(1, 10)};
}

TEST(PipelineScheduleTest, OneForwardOneBackwardOfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(OneForwardOneBackward(4, 8)),
            "stage 0: F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
            "stage 1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
            "stage 2: F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
            "stage 3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

TEST(PipelineScheduleTest, FewerMicroBatchesThanStagesStopAtTheLastForward) {
  EXPECT_EQ(Print(OneForwardOneBackward(4, 2)),
            "stage 0: F0 F1 B0 B1\n"
            "stage 1: F0 F1 B0 B1\n"
            "stage 2: F0 F1 B0 B1\n"
            "stage 3: F0 B0 F1 B1\n");
}

TEST(PipelineScheduleTest, GPipeOfTwoStagesAndThreeMicroBatches) {
  EXPECT_EQ(Print(GPipe(2, 3)),
            "stage 0: F0 F1 F2 B0 B1 B2\n"
            "stage 1: F0 F1 F2 B0 B1 B2\n");
}

TEST(PipelineScheduleTest, SequentialIsTheLoopOfGradientAccumulation) {
  EXPECT_EQ(Print(Sequential(3)), "stage 0: F0 B0 F1 B1 F2 B2\n");
}

RC_GTEST_PROP(PipelineScheduleTest, NamedSchedulesHaveNoMistakes, ()) {
  const Shape shape;
  for (const NamedSchedule& named : NamedSchedules()) {
    RC_ASSERT(CheckSchedule(named.build({shape.stages, shape.micro_batches})).empty());
  }
}

// arXiv 2104.04473, section 2.2.1: a stage is idle for (P-1)(F+B), whatever M is, in both.
RC_GTEST_PROP(PipelineScheduleTest, TheBubbleOfGPipeAndOf1F1B, ()) {
  const Shape shape;
  const PassDurations durations = AnyDurations();
  const std::int64_t both =
      durations.forward + durations.backward_input + durations.backward_weight;
  for (const auto& build : {GPipe, OneForwardOneBackward}) {
    const ScheduleTiming timing = Time(build(shape.stages, shape.micro_batches), durations);
    RC_ASSERT(timing.slots == (shape.micro_batches + shape.stages - 1) * both);
    for (const std::int64_t idle : timing.idle) RC_ASSERT(idle == (shape.stages - 1) * both);
  }
}

RC_GTEST_PROP(PipelineScheduleTest, MicroBatchesInFlight, ()) {
  const Shape shape;
  const std::vector<int> one =
      MostInFlight(OneForwardOneBackward(shape.stages, shape.micro_batches));
  const std::vector<int> all = MostInFlight(GPipe(shape.stages, shape.micro_batches));
  for (int s = 0; s < shape.stages; ++s) {
    const auto stage = static_cast<std::size_t>(s);
    RC_ASSERT(one[stage] == std::min(shape.micro_batches, shape.stages - s));
    RC_ASSERT(all[stage] == shape.micro_batches);
  }
}

// Naive model parallelism: one stage computes at a time, 1/P of the devices.
RC_GTEST_PROP(PipelineScheduleTest, OneMicroBatchUsesOneStageAtATime, ()) {
  const int stages = *rc::gen::inRange(1, 12);
  const ScheduleTiming timing = Time(GPipe(stages, 1), AnyDurations());
  for (const std::int64_t idle : timing.idle) {
    RC_ASSERT((timing.slots - idle) * stages == timing.slots);
  }
}

RC_GTEST_PROP(PipelineScheduleTest, StagesOfPassesAreThoseOfTheLists, ()) {
  const Shape shape;
  const auto stages = StagesOfPasses(OneForwardOneBackward(shape.stages, shape.micro_batches));
  RC_ASSERT(static_cast<int>(stages.size()) == shape.stages);
  for (int chunk = 0; chunk < shape.stages; ++chunk) {
    RC_ASSERT(stages[static_cast<std::size_t>(chunk)] ==
              std::vector<int>(static_cast<std::size_t>(shape.micro_batches), chunk));
  }
}

TEST(PipelineScheduleTest, SchedulesAreFoundByName) {
  for (const NamedSchedule& named : NamedSchedules()) EXPECT_EQ(FindSchedule(named.name), &named);
  EXPECT_EQ(FindSchedule("2f2b"), nullptr);
}

}  // namespace
}  // namespace stepcast::parallel
