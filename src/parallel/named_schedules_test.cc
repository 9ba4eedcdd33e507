#include "src/parallel/named_schedules.h"

#include <algorithm>
#include <set>
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

// Worked out by hand. 1f1b's first stage of 3 runs 2 forwards ahead and one more before its first
// backward, whose own forward does not wait; gpipe's stages have run all 5. With a two-part
// backward, zb_h1 waits as 1f1b.
TEST(MostWaiting, IsWhatHasRunForwardAlone) {
  const auto most = [](const PipelineSchedule& schedule) {
    std::vector<std::vector<int>> forwards;
    for (const WaitingPasses& stage : MostWaiting(schedule)) {
      forwards.push_back({stage.chunk});
      forwards.back().insert(forwards.back().end(), stage.forwards.begin(), stage.forwards.end());
    }
    return forwards;
  };
  EXPECT_EQ(most(OneForwardOneBackward(3, 5)),
            (std::vector<std::vector<int>>{{0, 2, 0, 0}, {1, 0, 1, 0}, {2, 0, 0, 0}}));
  EXPECT_EQ(most(GPipe(2, 5)), (std::vector<std::vector<int>>{{0, 4, 0}, {1, 0, 4}}));
  EXPECT_EQ(most(FindSchedule("zb_h1")->build({2, 5})),
            (std::vector<std::vector<int>>{{0, 1, 0}, {1, 0, 0}}));
}

// With more than four times as many micro-batches as stages, at least as many passes wait: some
// backward of the same chunk begins when equally many wait for each chunk.
RC_GTEST_PROP(MostWaiting, IsNoLessWithMoreMicroBatches, ()) {
  const int stages = *rc::gen::inRange(2, 9), more = *rc::gen::inRange(0, 40);
  for (const NamedSchedule& named : NamedSchedules()) {
    const ScheduleShape few{stages, 4 * stages, std::max(named.chunks, 1)};
    ScheduleShape many = few;
    many.micro_batches += more;
    if (!named.splits_backward || named.two_copies || named.MistakeOf(many)) continue;
    RC_ASSERT(MostWaiting(named.build(few)) == MostWaiting(named.build(many)));
  }
}

// If forwards and backwards alternate, equally many passes wait again after every chunk of the
// stage has run a backward. Gradients of all chunks are then kept at the same time. For v_min it is
// one or two fewer.
RC_GTEST_PROP(MostWaiting, ComesAgainWhenAllChunksHaveRunBackward, ()) {
  const int stages = *rc::gen::inRange(2, 9), more = *rc::gen::inRange(0, 40);
  const int virtual_stages = *rc::gen::inRange(2, 5), group = *rc::gen::inRange(0, 5);
  for (const NamedSchedule& named : NamedSchedules()) {
    if (named.two_copies || named.name == "gpipe" || named.name == "breadth_first" ||
        named.name == "v_min") {
      continue;
    }
    ScheduleShape shape{stages, 0, named.chunks == 0 ? virtual_stages : named.chunks};
    if (named.name == "interleaved_1f1b" && group > 0) shape.group = stages + group;
    shape.micro_batches = 4 * std::max(stages, shape.group) + more;
    if (named.MistakeOf(shape)) continue;
    const PipelineSchedule schedule = named.build(shape);
    const std::vector<WaitingPasses> most = MostWaiting(schedule);
    for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
      std::set<int> backward;
      int all = 0, highest = -1;
      for (const ScheduleEntry& entry : schedule.stages[s].entries) {
        for (const Action& action : ActionsOf(entry)) {
          if (action.task == Task::kForward) {
            ++all;
          } else if (action.task != Task::kBackwardWeight) {
            --all;
            if (backward.size() == schedule.stages[s].chunks.size()) {
              highest = std::max(highest, all);
            }
            backward.insert(action.chunk);
          }
        }
      }
      int before = 0;
      for (const int forwards : most[s].forwards) before += forwards;
      RC_ASSERT(highest >= before);
    }
  }
}

TEST(NamedSchedulesTest, SayWhyAShapeWillNotDo) {
  const auto mistake = [](const char* name, ScheduleShape shape) {
    const auto found = FindSchedule(name)->MistakeOf(shape);
    return found ? found->sentence : "";
  };
  EXPECT_EQ(mistake("interleaved_1f1b", {4, 6, 2}),
            "the schedule needs a multiple of 4 micro-batches, but there are 6");
  EXPECT_EQ(mistake("dualpipe_v", {4, 7, 2}),
            "the schedule needs at least 8 micro-batches with 4 stages, but there are 7");
  EXPECT_EQ(mistake("dualpipe", {3, 8, 1}),
            "the schedule needs an even number of stages, but "
            "there are 3");
  EXPECT_EQ(mistake("dualpipe", {4, 9, 1}),
            "the schedule needs an even number of micro-batches, with one half for each direction, "
            "but there are 9");
  EXPECT_EQ(mistake("zb_v", {4, 1, 2}), "");
}

TEST(NamedSchedulesTest, AreFoundByName) {
  for (const NamedSchedule& named : NamedSchedules()) EXPECT_EQ(FindSchedule(named.name), &named);
  EXPECT_EQ(FindSchedule("2f2b"), nullptr);
  EXPECT_EQ(NamesOfSchedules().substr(0, 11), "gpipe, 1f1b");
}

}  // namespace
}  // namespace stepcast::parallel
