#include "src/parallel/pipeline_schedule.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"

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

// Megatron-Core, combined_1f1b_schedule_for_no_pipelining: F0, then each backward with the next
// micro-batch's forward.
TEST(PipelineScheduleTest, CombinedGradientAccumulation) {
  EXPECT_EQ(Print(Combined(Sequential(3))), "stage 0: F0 F1+B0 F2+B1 B2\n");
  EXPECT_EQ(Print(Combined(Sequential(1))), "stage 0: F0 B0\n");
}

// Interleaved, a stage runs one more forward ahead than without pairs, 2 (P-1-s) + (v-1) P + 1
// (core/pipeline_parallel/schedules.py, get_pp_rank_microbatches), and both have the same passes in
// the same order. No shape deadlocks.
RC_GTEST_PROP(PipelineScheduleTest, CombinedSchedulesRun, ()) {
  const int stages = *rc::gen::inRange(2, 7), chunks = *rc::gen::inRange(2, 4);
  const int micro_batches = stages * *rc::gen::inRange(1, 4);
  const PipelineSchedule plain = InterleavedOneForwardOneBackward(stages, micro_batches, chunks);
  const PipelineSchedule combined = Combined(plain);
  RC_ASSERT(CheckSchedule(combined).empty());
  for (int s = 0; s < stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    std::vector<Action> passes, turns;
    for (const ScheduleEntry& entry : plain.stages[at].entries) {
      passes.push_back(std::get<Action>(entry));
    }
    int ahead = 0;
    bool paired = false;
    for (const ScheduleEntry& entry : combined.stages[at].entries) {
      if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
        paired = true;
        turns.push_back(pair->backward);
        turns.push_back(pair->forward);
      } else {
        turns.push_back(std::get<Action>(entry));
        if (turns.back().task == Task::kForward) ++ahead;
      }
    }
    RC_ASSERT(passes == turns);
    const int before = 2 * (stages - 1 - s) + (chunks - 1) * stages + 1;
    RC_ASSERT(ahead == std::min(before, micro_batches * chunks));
    RC_ASSERT(paired == (before < micro_batches * chunks));
  }
}

// Megatron-LM, core/pipeline_parallel/schedules.py, by hand for P = 4, v = 2, groups of 4: stage 0
// runs 2 (4-1-0) + (2-1) 4 = 10 forwards ahead. Each group of four micro-batches runs the first
// chunk's passes, then the second's; backwards start with the last chunk.
TEST(PipelineScheduleTest, InterleavedOfFourStagesWithTwoChunks) {
  const PipelineSchedule schedule = InterleavedOneForwardOneBackward(4, 8, 2);
  EXPECT_EQ(schedule.stages[1].chunks, (std::vector<int>{1, 5}));
  const std::string text = Print(schedule);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "stage 0 holds 0 4: F0.0 F1.0 F2.0 F3.0 F0.4 F1.4 F2.4 F3.4 F4.0 F5.0 F6.0 B0.4 F7.0 B1.4 "
      "F4.4 B2.4 F5.4 B3.4 F6.4 B0.0 F7.4 B1.0 B2.0 B3.0 B4.4 B5.4 B6.4 B7.4 B4.0 B5.0 B6.0 "
      "B7.0");
}

// arXiv 2104.04473, section 2.2.2, and arXiv 2211.05953: with v chunks a stage is idle for
// (P-1)(F+B)/v, F and B those of all its chunks.
RC_GTEST_PROP(PipelineScheduleTest, SeveralChunksDivideTheBubble, ()) {
  const int stages = *rc::gen::inRange(1, 7), groups = *rc::gen::inRange(1, 5);
  const int virtual_stages = *rc::gen::inRange(1, 5);
  const PassDurations chunk = AnyDurations();
  const std::int64_t both = chunk.forward + chunk.backward_input + chunk.backward_weight;
  for (const PipelineSchedule& schedule :
       {InterleavedOneForwardOneBackward(stages, groups * stages, virtual_stages),
        BreadthFirst(stages, groups * stages, virtual_stages)}) {
    const ScheduleTiming timing = Time(schedule, chunk);
    for (const std::int64_t idle : timing.idle) RC_ASSERT(idle == (stages - 1) * both);
  }
}

// By hand for P = 2, v = 2, M = 5, groups of 3, the last of which has 2: stage 1 runs (2-1) 3 = 3
// forwards ahead, stage 0 two more (Megatron-LM, get_schedule_table).
TEST(PipelineScheduleTest, InterleavedInLargerGroups) {
  EXPECT_EQ(Print(InterleavedOneForwardOneBackward(2, 5, 2, 3)),
            "stage 0 holds 0 2: F0.0 F1.0 F2.0 F0.2 F1.2 F2.2 B0.2 F3.0 B1.2 F4.0 B2.2 F3.2 B0.0 "
            "F4.2 B1.0 B2.0 B3.2 B4.2 B3.0 B4.0\n"
            "stage 1 holds 1 3: F0.1 F1.1 F2.1 F0.3 B0.3 F1.3 B1.3 F2.3 B2.3 F3.1 B0.1 F4.1 B1.1 "
            "F3.3 B2.1 F4.3 B3.3 B4.3 B3.1 B4.1\n");
}

// For any groups: stages do not deadlock, messages keep their order, and larger groups keep at
// least as many micro-batches.
RC_GTEST_PROP(PipelineScheduleTest, GroupsOfAnySizeRun, ()) {
  const int stages = *rc::gen::inRange(1, 7), virtual_stages = *rc::gen::inRange(1, 5);
  const int group = stages + *rc::gen::inRange(0, 5);
  const int whole = *rc::gen::inRange(1, 4);
  const int rest = group > stages ? *rc::gen::elementOf(std::vector<int>{0, stages, group - 1}) : 0;
  const int micro_batches = whole * group + rest;
  const PipelineSchedule schedule =
      InterleavedOneForwardOneBackward(stages, micro_batches, virtual_stages, group);
  RC_ASSERT(CheckSchedule(schedule).empty());
  RC_ASSERT(!MessageOutOfOrder(schedule).has_value());
  // torch.distributed.pipelining with fewer micro-batches than stages.
  const int few = *rc::gen::inRange(1, stages + 1);
  RC_ASSERT(
      CheckSchedule(InterleavedOneForwardOneBackward(stages, few, virtual_stages, few)).empty());
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

TEST(PipelineScheduleTest, BreadthFirstOfFourStagesWithTwoChunks) {
  EXPECT_EQ(Print(BreadthFirst(4, 3, 2)),
            "stage 0 holds 0 4: F0.0 F1.0 F2.0 F0.4 F1.4 F2.4 B0.4 B1.4 B2.4 B0.0 B1.0 B2.0\n"
            "stage 1 holds 1 5: F0.1 F1.1 F2.1 F0.5 F1.5 F2.5 B0.5 B1.5 B2.5 B0.1 B1.1 B2.1\n"
            "stage 2 holds 2 6: F0.2 F1.2 F2.2 F0.6 F1.6 F2.6 B0.6 B1.6 B2.6 B0.2 B1.2 B2.2\n"
            "stage 3 holds 3 7: F0.3 F1.3 F2.3 F0.7 F1.7 F2.7 B0.7 B1.7 B2.7 B0.3 B1.3 B2.3\n");
}

}  // namespace
}  // namespace stepcast::parallel
