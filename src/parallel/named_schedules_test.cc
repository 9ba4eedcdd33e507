#include "src/parallel/named_schedules.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"

namespace stepcast::parallel {
namespace {

RC_GTEST_PROP(NamedSchedulesTest, HaveNoMistakesWhereTheShapeHasNone, ()) {
  const int stages = *rc::gen::inRange(1, 12), micro_batches = *rc::gen::inRange(1, 40);
  const int virtual_stages = *rc::gen::inRange(1, 5);
  for (const NamedSchedule& named : NamedSchedules()) {
    const int chunks = named.chunks == 0 ? virtual_stages : named.chunks;
    const ScheduleShape shape{stages, micro_batches, chunks};
    if (named.MistakeOf(shape)) continue;
    const PipelineSchedule schedule = named.build(shape);
    RC_ASSERT(CheckSchedule(schedule).empty());
    RC_ASSERT(schedule.micro_batches == micro_batches);
    RC_ASSERT(SplitsBackward(schedule) == named.splits_backward);
    if (!named.two_copies) RC_ASSERT(!MessageOutOfOrder(schedule));
    RC_ASSERT(Chunks(schedule) == stages * chunks);
    // Stages hold as many chunks, and each chunk has one home unless there are two copies.
    std::vector<int> homes(static_cast<std::size_t>(Chunks(schedule)));
    for (const PipelineSchedule::Stage& stage : schedule.stages) {
      RC_ASSERT(static_cast<int>(stage.chunks.size()) == chunks * (named.two_copies ? 2 : 1));
      for (const int chunk : stage.chunks) ++homes[static_cast<std::size_t>(chunk)];
    }
    for (const int home : homes) RC_ASSERT(home == (named.two_copies ? 2 : 1));
  }
}

TEST(NamedSchedulesTest, SayWhyAShapeWillNotDo) {
  const auto mistake = [](const char* name, ScheduleShape shape) {
    const auto found = FindSchedule(name)->MistakeOf(shape);
    return found ? found->sentence : "";
  };
  EXPECT_EQ(mistake("interleaved_1f1b", {4, 6, 2}),
            "runs micro-batches in groups of 4, and there are 6");
  EXPECT_EQ(mistake("dualpipe_v", {4, 7, 2}),
            "needs 8 micro-batches or more with 4 stages, and there are 7");
  EXPECT_EQ(mistake("dualpipe", {3, 8, 1}), "takes an even number of stages, and there are 3");
  EXPECT_EQ(mistake("dualpipe", {4, 9, 1}),
            "sends half of the micro-batches each way, and there are 9");
  EXPECT_EQ(mistake("zb_v", {4, 1, 2}), "");
}

TEST(NamedSchedulesTest, AreFoundByName) {
  for (const NamedSchedule& named : NamedSchedules()) EXPECT_EQ(FindSchedule(named.name), &named);
  EXPECT_EQ(FindSchedule("2f2b"), nullptr);
  EXPECT_EQ(NamesOfSchedules().substr(0, 11), "gpipe, 1f1b");
}

}  // namespace
}  // namespace stepcast::parallel
