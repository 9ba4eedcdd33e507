#include "src/formats/schedule_csv.h"

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::formats {
namespace {

std::string Mistakes(const std::string& text) {
  const auto schedule = ParseScheduleCsv(text, "mine.csv");
  return schedule ? "" : Format(schedule.error());
}

// Output of _PipelineScheduleRuntime for 1F1B: empty cells are slots without an action.
TEST(ScheduleCsvTest, ARowForEachRank) {
  const auto schedule =
      ParseScheduleCsv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n", "mine.csv");
  ASSERT_TRUE(schedule.has_value()) << Format(schedule.error());
  EXPECT_EQ(*schedule, parallel::OneForwardOneBackward(2, 2));
}

// A V schedule: rank 0 has the first and the last chunk, and rank 1 those between.
TEST(ScheduleCsvTest, AllActions) {
  const std::string text =
      "0UNSHARD,0F0,3F0,0F1,(3F1;3B0)OVERLAP_F_B,0I0,0W0,3B1,0B1,0REDUCE_GRAD,0RESHARD\n"
      "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n";
  const auto schedule = ParseScheduleCsv(text, "mine.csv");
  ASSERT_TRUE(schedule.has_value()) << Format(schedule.error());
  EXPECT_EQ(parallel::Print(*schedule),
            "stage 0 holds 0 3: unshard.0 F0.0 F0.3 F1.0 F1.3+B0.3 I0.0 W0.0 B1.3 B1.0 reduce.0 "
            "reshard.0\n"
            "stage 1 holds 1 2: F0.1 F0.2 F1.1 F1.2 B0.2 B0.1 B1.2 B1.1\n");
  EXPECT_EQ(ScheduleCsv(*schedule), text);
}

TEST(ScheduleCsvTest, AllWrongCellsAtOnce) {
  EXPECT_EQ(
      Mistakes("0F0, 0X1,0B0\n1F0,1SEND_B0,1B\n"),
      "mine.csv:1:6: error[schedule.action]: the cell is not an action of a schedule: '0X1'\n"
      "  hint: write the chunk, the action and the micro-batch: 0F3, 0B3, 0I3, 0W3, "
      "(0F4;7B0)OVERLAP_F_B, 0UNSHARD, 0RESHARD or 0REDUCE_GRAD\n"
      "mine.csv:2:5: error[schedule.action]: the cell is not an action of a schedule: '1SEND_B0'\n"
      "  hint: remove sends and receives (PyTorch's format compute_only), because stepcast derives "
      "them from the schedule\n"
      "mine.csv:2:14: error[schedule.action]: the cell is not an action of a schedule: '1B'\n"
      "  hint: write the chunk, the action and the micro-batch: 0F3, 0B3, 0I3, 0W3, "
      "(0F4;7B0)OVERLAP_F_B, 0UNSHARD, 0RESHARD or 0REDUCE_GRAD\n");
}

TEST(ScheduleCsvTest, ListsThatCannotRunTogether) {
  EXPECT_EQ(Mistakes("0F0,0F1,0B0\n# stage 1\n1F0,1B0,1F1,1B1,1B1\n"),
            "mine.csv:3:17: error[schedule.not-runnable]: the schedule cannot run: B1 occurs "
            "twice\n"
            "  hint: correct the order of the actions; for a valid example, run stepcast schedule "
            "--stages 2 --micro-batches 4 --print csv\n");
  EXPECT_EQ(Mistakes("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
            "mine.csv:1:5: error[schedule.not-runnable]: the schedule cannot run: the stages wait "
            "for each other in a cycle: stage 0 at B0 waits for B0 of stage 1, stage 1 at F1 waits "
            "for F1 of stage 0\n"
            "  hint: correct the order of the actions; for a valid example, run stepcast schedule "
            "--stages 2 --micro-batches 4 --print csv\n");
  EXPECT_EQ(
      Mistakes("0F0\n1F0,1B0\n"),
      "mine.csv:1:1: error[schedule.not-runnable]: the schedule cannot run: stage 0 has no B0\n"
      "  hint: correct the order of the actions; for a valid example, run stepcast schedule "
      "--stages 2 --micro-batches 4 --print csv\n");
}

TEST(ScheduleCsvTest, NoActions) {
  EXPECT_EQ(Mistakes(""),
            "mine.csv: error[schedule.not-runnable]: the schedule has no actions\n"
            "  hint: write a row for each rank: '0F0,0B0'\n");
}

RC_GTEST_PROP(ScheduleCsvTest, WrittenSchedulesAreReadAsTheyWere, ()) {
  const int stages = *rc::gen::inRange(1, 8);
  const int micro_batches = *rc::gen::inRange(1, 12);
  for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
    const parallel::ScheduleShape shape{stages, micro_batches * stages,
                                        named.chunks == 0 ? 2 : named.chunks};
    if (named.MistakeOf(shape)) continue;
    const parallel::PipelineSchedule schedule = named.build(shape);
    RC_ASSERT(ParseScheduleCsv(ScheduleCsv(schedule), "mine.csv") == schedule);
  }
}

}  // namespace
}  // namespace stepcast::formats
