#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/report/dumps.h"
#include "tests/examples/schedule_parser.h"

namespace stepcast::report {
namespace {

std::string Drawn(const parallel::PipelineSchedule& schedule, const TerminalStyle& style,
                  const parallel::PassDurations& durations = {}) {
  return ScheduleDrawing(schedule, parallel::Time(schedule, durations), style);
}

TEST(ScheduleDrawingTest, AsPapersDrawIt) {
  EXPECT_EQ(Drawn(parallel::OneForwardOneBackward(2, 3), {.width = 100}),
            "stage 0  F0 F1       B0--- F2 B1---    B2---\n"
            "stage 1     F0 B0--- F1 B1--- F2 B2---\n"
            "slot     0              5              10\n"
            "F forward   B backward   with the micro-batch\n");
}

TEST(ScheduleDrawingTest, LongPassesNeedFewerColumns) {
  EXPECT_EQ(Drawn(parallel::OneForwardOneBackward(1, 1), {.width = 100},
                  {.forward = 3, .backward_input = 2, .backward_weight = 2}),
            "stage 0  F0--- B0-----\n"
            "slot     0         5\n"
            "F forward   B backward   with the micro-batch\n");
}

TEST(ScheduleDrawingTest, ChunksPairsAndParts) {
  const auto schedule = parallel::ParseSchedule(
      "stage 0 holds 0 1: F0.0 F0.1 F1.0+B0.1 F1.1 I0.0 B1.1 W0.0 B1.0\n", "");
  EXPECT_EQ(Drawn(*schedule, {.width = 140}),
            "stage 0  F0.0 F0.1 F1.0+B0.1----- F1.1 I0.0 B1.1----- W0.0 B1.0-----\n"
            "slot     0         2         4         6         8         10\n"
            "F forward   B backward   I backward of inputs   W backward of weights   + both "
            "passes, overlapped   with micro-batch.chunk\n");
}

TEST(ScheduleDrawingTest, NumbersAreLeftOutFirst) {
  EXPECT_EQ(Drawn(parallel::OneForwardOneBackward(2, 9), {.width = 60}),
            "stage 0  FF  B-FB-FB-FB-FB-FB-FB-FB- B-\n"
            "stage 1   FB-FB-FB-FB-FB-FB-FB-FB-FB-\n"
            "slot     0         10        20\n"
            "F forward   B backward\n"
            "the numbers of micro-batches are not shown: they need 99 columns\n");
}

// 31 columns hold 13 slots, a gap and 13 slots, of 48.
TEST(ScheduleDrawingTest, TheMiddleIsLeftOut) {
  EXPECT_EQ(Drawn(parallel::OneForwardOneBackward(2, 15), {.width = 40}),
            "stage 0  FF  B-FB-FB-F ... -FB-FB-FB- B-\n"
            "stage 1   FB-FB-FB-FB- ... B-FB-FB-FB-\n"
            "slot     0         10  ...      40\n"
            "F forward   B backward\n"
            "slots 13 to 34 are not shown: all 48 slots need 57 columns\n"
            "the numbers of micro-batches are not shown: they need 201 columns\n");
}

TEST(ScheduleDrawingTest, ColoursSayTheSame) {
  EXPECT_EQ(Drawn(parallel::Sequential(1), {.width = 60, .colour = true}),
            "stage 0  \033[30;48;5;75mF0\033[0m \033[30;48;5;176mB0   \033[0m\n"
            "slot     0\n"
            "F forward   B backward   with the micro-batch\n");
}

RC_GTEST_PROP(ScheduleDrawingTest, RowsAreNoWiderThanTheTerminal, ()) {
  const auto schedule =
      parallel::OneForwardOneBackward(*rc::gen::inRange(1, 12), *rc::gen::inRange(1, 120));
  const int width = *rc::gen::inRange(40, 200);
  std::istringstream lines(Drawn(schedule, {.width = width}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("stage") && !line.starts_with("slot ")) continue;
    RC_ASSERT(line.size() <= static_cast<std::size_t>(width));
  }
}

}  // namespace
}  // namespace stepcast::report
