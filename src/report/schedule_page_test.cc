#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_check.h"
#include "src/report/pages.h"

namespace stepcast::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string PageOf(parallel::PipelineSchedule schedule) {
  TimedSchedule timed;
  timed.name = "1f1b";
  timed.schedule = std::move(schedule);
  timed.timing = parallel::Time(timed.schedule, timed.durations);
  timed.in_flight = parallel::MostInFlight(timed.schedule);
  return SchedulePage(timed);
}

// Two stages and two micro-batches of one forward slot and two backward slots: 9 slots, of which
// each stage is idle for 3.
TEST(SchedulePageTest, DrawsEveryPassOfEveryStage) {
  const std::string page = PageOf(parallel::OneForwardOneBackward(2, 2));
  EXPECT_THAT(page, HasSubstr("A step takes 9 slots; the stages are idle for 33.3 % of the time."));
  EXPECT_THAT(page,
              HasSubstr(R"("lanes":[{"name":"stage 0","bars":4},{"name":"stage 1","bars":4}])"));
  EXPECT_THAT(page, HasSubstr(R"("name":["F0","F1","B0","B1"])"));
  EXPECT_THAT(page, HasSubstr(R"("unit":"slots")"));
}

TEST(SchedulePageTest, TooManyPassesAreNotDrawn) {
  const std::string page = PageOf(parallel::OneForwardOneBackward(64, 200));
  EXPECT_THAT(
      page,
      HasSubstr("The page draws only up to 20,000 passes, but the schedule has 25,600 passes."));
  EXPECT_THAT(page, Not(HasSubstr("<figure")));
  EXPECT_THAT(page, HasSubstr("stage"));
}

}  // namespace
}  // namespace stepcast::report
