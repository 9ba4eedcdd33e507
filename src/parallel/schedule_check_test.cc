#include "src/parallel/schedule_check.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/schedule_parser.h"

namespace stepcast::parallel {
namespace {

struct Case {
  std::string schedule;
  std::vector<std::string> mistakes;  // "stage/entry: sentence"
};

std::vector<std::string> Mistakes(const std::string& text) {
  const Result<PipelineSchedule> schedule = ParseSchedule(text, "schedule");
  if (!schedule) return {Format(schedule.error())};
  std::vector<std::string> mistakes;
  for (const ScheduleMistake& mistake : CheckSchedule(*schedule)) {
    mistakes.push_back(std::to_string(mistake.stage) + "/" + std::to_string(mistake.entry) + ": " +
                       mistake.sentence);
  }
  return mistakes;
}

TEST(ScheduleCheckTest, EveryMistakeIsASentence) {
  const Case cases[] = {
      {"stage 0: F0 B0\nstage 1: F0 B0\n", {}},
      {"stage 0: F0 F0 B0\n", {"0/1: F0 occurs twice"}},
      {"stage 0: F0 F1 B1 W0\n", {"0/-1: stage 0 has no I0"}},
      {"stage 0: F0 I0 W0 B0\n",
       {"0/3: micro-batch 0 has both a full backward pass (B) of chunk 0 and a split backward pass "
        "(I, W)"}},
      {"stage 0: F0 B0\nstage 1: F0\n", {"1/-1: stage 1 has no B0"}},
      {"stage 0: F0 F1 B0\nstage 1: F0 B0 F1 B1\n", {"0/-1: stage 0 has no B1"}},
      {"stage 0 holds 0 1: F0.0 F0.1 B0.1 B0.0 F0.2\n", {"0/4: stage 0 does not have chunk 2"}},
      {"stage 0: F0 B0\nstage 1 holds 2: F0.2 B0.2\n", {"0/-1: no stage has chunk 1 of 3"}},
      {"stage 0: B0 F0\n", {"0/0: stage 0: B0 depends on F0, but does not come after it"}},
      {"stage 0: F0 W0 I0\n", {"0/1: stage 0: W0 depends on I0, but does not come after it"}},
      {"stage 0: F0+B0\n", {"0/0: stage 0: F0+B0 depends on F0+B0, but does not come after it"}},
      {"stage 0: F0+F1\n",
       {"0/0: two overlapping passes must be one forward pass and one backward "
        "pass: F0.0+F1.0"}},
      // Stage 0 wants B0 before it sends micro-batch 1; stage 1 wants micro-batch 1 first.
      {"stage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1\n",
       {"0/1: the stages wait for each other in a cycle: stage 0 at B0 waits for B0 of stage 1, "
        "stage 1 at F1 waits for F1 of stage 0"}},
      // Two copies of one chunk: a micro-batch stays on one of them.
      {"stage 0 holds 0 1: F0.0 F0.1 B0.1\nstage 1 holds 0 1: B0.0\n",
       {"1/0: B0 of chunk 0 is on stage 1, but other passes of the same micro-batch and chunk are "
        "on stage 0"}},
      {"stage 0: unshard F0 B0 reduce reshard.1\n", {"0/4: stage 0 does not have chunk 1"}},
  };
  for (const Case& one : cases) EXPECT_EQ(Mistakes(one.schedule), one.mistakes) << one.schedule;
}

TEST(ScheduleCheckTest, MicroBatchesOutsideTheStep) {
  PipelineSchedule schedule = Sequential(1);
  schedule.stages[0].entries.push_back(Action{Task::kForward, 1, 0});
  const std::vector<ScheduleMistake> mistakes = CheckSchedule(schedule);
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes[0].sentence,
            "micro-batch 1 does not exist; numbers start at 0 and must be below 1");
}

// Large numbers cost no time.
TEST(ScheduleCheckTest, TheFirstMistakesOfMany) {
  const std::vector<std::string> mistakes = Mistakes("stage 0: F999999999 B999999999\n");
  ASSERT_EQ(mistakes.size(), 20U);
  EXPECT_EQ(mistakes.front(), "0/-1: stage 0 has no F0");
  EXPECT_EQ(Mistakes("stage 0 holds 999999999: F0.999999999\n").size(), 20U);
}

// Activations are held until the last part of their backward.
TEST(ScheduleCheckTest, InFlightUntilTheWeightsGradients) {
  const auto schedule = ParseSchedule("stage 0: F0 I0 F1 W0 I1 F2 W1 B2\n", "schedule");
  EXPECT_EQ(MostInFlight(*schedule), std::vector<int>{2});
}

// A pair holds both its micro-batches.
TEST(ScheduleCheckTest, InFlightInAPair) {
  const auto schedule = ParseSchedule("stage 0: F0 F1+B0 B1\n", "schedule");
  EXPECT_EQ(CheckSchedule(*schedule).size(), 0U);
  EXPECT_EQ(MostInFlight(*schedule), std::vector<int>{2});
}

// Omitting any entry, or duplicating it, is a mistake.
RC_GTEST_PROP(ScheduleCheckTest, EveryEntryCounts, ()) {
  const int stages = *rc::gen::inRange(1, 6);
  const int micro_batches = *rc::gen::inRange(1, 8);
  PipelineSchedule schedule = OneForwardOneBackward(stages, micro_batches);
  auto& entries =
      schedule.stages[*rc::gen::inRange<std::size_t>(0, schedule.stages.size())].entries;
  const auto at = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, entries.size()));
  if (*rc::gen::arbitrary<bool>()) {
    entries.erase(entries.begin() + at);
  } else {
    entries.insert(entries.begin() + at, ScheduleEntry(entries[static_cast<std::size_t>(at)]));
  }
  RC_ASSERT(CheckSchedule(schedule).size() == 1U);
}

// After exchanging two adjacent entries, a schedule runs or has one mistake, a cycle.
RC_GTEST_PROP(ScheduleCheckTest, ExchangedEntriesRunOrFormACycle, ()) {
  PipelineSchedule schedule =
      OneForwardOneBackward(*rc::gen::inRange(1, 6), *rc::gen::inRange(1, 8));
  auto& entries =
      schedule.stages[*rc::gen::inRange<std::size_t>(0, schedule.stages.size())].entries;
  const std::size_t at = *rc::gen::inRange<std::size_t>(1, entries.size());
  std::swap(entries[at - 1], entries[at]);
  RC_ASSERT(CheckSchedule(schedule).size() <= 1U);
}

}  // namespace
}  // namespace stepcast::parallel
