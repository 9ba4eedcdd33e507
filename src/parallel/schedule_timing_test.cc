
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/parallel/schedule_check.h"
#include "tests/examples/schedule_parser.h"

// Lists worked out by hand; laws of named schedules are in pipeline_schedule_test.cc.
namespace stepcast::parallel {
namespace {

PipelineSchedule Read(const std::string& text) {
  Result<PipelineSchedule> schedule = ParseSchedule(text, "schedule");
  EXPECT_TRUE(schedule.has_value());
  EXPECT_EQ(CheckSchedule(*schedule).size(), 0U);
  return *schedule;
}

// slot    0  1  2  3  4  5  6  7  8
// stage 0 F0 F1 .  .  B0 B0 .  B1 B1
// stage 1 .  F0 B0 B0 F1 B1 B1 .  .
TEST(ScheduleTimingTest, EachEntryStartsWhenWhatItNeedsIsDone) {
  const ScheduleTiming timing =
      Time(Read("stage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n"), PassDurations{});
  const std::vector<std::vector<std::int64_t>> begins = {{0, 1, 4, 7}, {1, 2, 4, 5}};
  for (std::size_t stage = 0; stage < begins.size(); ++stage) {
    for (std::size_t entry = 0; entry < begins[stage].size(); ++entry) {
      EXPECT_EQ(timing.spans[stage][entry].begin, begins[stage][entry]) << stage << " " << entry;
    }
  }
  EXPECT_EQ(timing.slots, 9);
  EXPECT_EQ(timing.idle, (std::vector<std::int64_t>{3, 3}));
}

// The zero-bubble idea: with the weight part moved into the drain, stage 0 waits for 2 slots of
// input gradients instead of 4 slots of whole backwards. Its idle time is (P-1)(F+B-W) = 1.
TEST(ScheduleTimingTest, WeightsPartsFillTheBubble) {
  const ScheduleTiming timing =
      Time(Read("stage 0: F0 F1 I0 W0 I1 W1\nstage 1: F0 I0 F1 I1 W0 W1\n"), PassDurations{});
  EXPECT_EQ(timing.slots, 7);
  EXPECT_EQ(timing.idle, (std::vector<std::int64_t>{1, 1}));
}

TEST(ScheduleTimingTest, APairTakesItsOwnTime) {
  const PipelineSchedule schedule = Read("stage 0: F0 F1+B0 B1\n");
  EXPECT_EQ(Time(schedule, {.forward = 4, .backward = 9}).slots, 26);
  EXPECT_EQ(Time(schedule, {.forward = 4, .backward = 9, .pair = 10}).slots, 23);
}

// Two copies of the model in opposite directions: micro-batch 0 goes through stages 0 and 1,
// micro-batch 1 through 1 and 0, and no stage waits.
TEST(ScheduleTimingTest, TwoCopiesInOppositeDirections) {
  const PipelineSchedule schedule = Read(
      "stage 0 holds 0 1: F0.0 F1.1 B1.1 B0.0\n"
      "stage 1 holds 0 1: F1.0 F0.1 B0.1 B1.0\n");
  EXPECT_EQ(Time(schedule, PassDurations{}).slots, 6);
}

}  // namespace
}  // namespace stepcast::parallel
