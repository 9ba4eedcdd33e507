#include "src/parallel/schedule_text.h"

#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/named_schedules.h"
#include "tests/examples/schedule_parser.h"

namespace stepcast::parallel {
namespace {

TEST(ScheduleTextTest, AllEntriesPrintAsTheyAreRead) {
  const std::string text =
      "stage 0 holds 0 3: unshard.0 F0.0 F1.0 F0.3 F2.3+B0.3 I1.3 W1.3 reduce.3 reshard.3\n"
      "stage 1: unshard F0 F1+B0 I1 W1 reduce reshard\n";
  const Result<PipelineSchedule> schedule = ParseSchedule(text, "schedule");
  ASSERT_TRUE(schedule.has_value()) << Format(schedule.error());
  EXPECT_EQ(Print(*schedule), text);
  EXPECT_EQ(schedule->micro_batches, 3);
  EXPECT_EQ(schedule->stages[0].entries[4],
            ScheduleEntry(OverlappedPair{{Task::kForward, 2, 3}, {Task::kBackward, 0, 3}}));
  EXPECT_EQ(schedule->stages[1].entries[1], ScheduleEntry(Action{Task::kForward, 0, 1}));
}

TEST(ScheduleTextTest, AllMistakesAtOnce) {
  const Result<PipelineSchedule> schedule = ParseSchedule(
      "stage 0: F0 X1 B\n"
      "stage 2: F0\n"
      "\n"
      "stage 2 holds 1 2: F0 F0.1+ F0.1\n",
      "mine");
  ASSERT_FALSE(schedule.has_value());
  EXPECT_EQ(Format(schedule.error()),
            "mine:1:13: error[schedule.action]: the cell is not an action of a schedule: 'X1'\n"
            "  hint: write F0, B0, I0, W0, F1+B0, unshard, reshard or reduce\n"
            "mine:1:16: error[schedule.action]: the cell is not an action of a schedule: 'B'\n"
            "  hint: write F0, B0, I0, W0, F1+B0, unshard, reshard or reduce\n"
            "mine:2:1: error[schedule.stage]: this line should begin with 'stage 1:': 'stage 2'\n"
            "  hint: if a stage holds more than the chunk with the stage's number, list the "
            "chunks: 'stage 0 holds 0 3:'\n"
            "mine:4:20: error[schedule.action]: the cell is not an action of a schedule: 'F0'\n"
            "  hint: if a stage holds more than the chunk with the stage's number, write F0.4 for "
            "micro-batch 0 in chunk 4\n"
            "mine:4:23: error[schedule.action]: the cell is not an action of a schedule: 'F0.1+'\n"
            "  hint: if a stage holds more than the chunk with the stage's number, write F0.4 for "
            "micro-batch 0 in chunk 4\n");
}

TEST(ScheduleTextTest, NoStages) {
  EXPECT_EQ(Format(ParseSchedule("\n", "mine").error()),
            "mine: error[schedule.stage]: the schedule has no stages\n"
            "  hint: write for example 'stage 0: F0 B0'\n");
}

RC_GTEST_PROP(ScheduleTextTest, PrintedSchedulesAreReadAsTheyWere, ()) {
  const int stages = *rc::gen::inRange(1, 8);
  const int micro_batches = *rc::gen::inRange(1, 12);
  for (const NamedSchedule& named : NamedSchedules()) {
    const ScheduleShape shape{stages, micro_batches * stages, named.chunks == 0 ? 2 : named.chunks};
    if (named.MistakeOf(shape)) continue;
    const PipelineSchedule schedule = named.build(shape);
    RC_ASSERT(ParseSchedule(Print(schedule), "schedule") == schedule);
  }
}

}  // namespace
}  // namespace stepcast::parallel
