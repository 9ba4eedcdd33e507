#include <gtest/gtest.h>

#include <vector>

#include "src/parallel/named_schedules.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {
namespace {

// F0 B0 | F1 B1 F2 B2 F3 B3 F4 B4 | F5 B5: all but the first and last micro-batch.
TEST(RepeatedMicroBatches, OfOneStageAreAllButTheFirstAndLast) {
  EXPECT_EQ(RepeatedMicroBatches(Sequential(6), 1), std::vector<MicroBatchRange>({{1, 5}}));
}

// Stage 0: F0 F1 F2 B0 | F3 B1 F4 B2 F5 B3 F6 B4 | F7 B5 B6 B7: micro-batches 1 to 4 end in it.
// Stage 1: F0 F1 B0 | F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 | F7 B6 B7.
// Stage 2: F0 B0 | F1 B1 ... F6 B6 | F7 B7.
TEST(RepeatedMicroBatches, OfAPipelineLieBetweenFillingAndDraining) {
  EXPECT_EQ(RepeatedMicroBatches(OneForwardOneBackward(3, 8), 1),
            std::vector<MicroBatchRange>({{1, 5}, {1, 6}, {1, 7}}));
}

// All forwards precede all backwards, so nothing repeats.
TEST(RepeatedMicroBatches, OfGPipeThereAreNone) {
  const auto ranges = RepeatedMicroBatches(GPipe(2, 8), 1);
  EXPECT_EQ(ranges, std::vector<MicroBatchRange>({{0, 0}, {0, 0}}));
}

// Groups of two micro-batches run through a stage's two chunks: the period is the group.
TEST(RepeatedMicroBatches, OfInterleavedChunksAreWholeGroups) {
  const auto ranges = RepeatedMicroBatches(InterleavedOneForwardOneBackward(2, 12, 2), 2);
  for (const MicroBatchRange& range : ranges) {
    EXPECT_GE(range.size(), 4);
    EXPECT_EQ(range.size() % 2, 0);
    EXPECT_LT(range.end, 12);
  }
}

// A longer schedule is a shorter one with more repetitions: the ranges grow by the additional
// micro-batches.
TEST(RepeatedMicroBatches, GrowWithTheSchedule) {
  for (const NamedSchedule& named : NamedSchedules()) {
    if (named.name != "1f1b" && named.name != "interleaved_1f1b" && named.name != "zb_h1" &&
        named.name != "zb_h2" && named.name != "zb_v") {
      continue;
    }
    const ScheduleShape shape{
        .stages = 4, .micro_batches = 32, .virtual_stages = named.chunks == 0 ? 2 : 1};
    ScheduleShape longer = shape;
    longer.micro_batches += 8;
    const int period = named.chunks == 0 ? 4 : 1;
    const auto few = RepeatedMicroBatches(named.build(shape), period);
    const auto many = RepeatedMicroBatches(named.build(longer), period);
    for (std::size_t stage = 0; stage < few.size(); ++stage) {
      EXPECT_EQ(many[stage].size(), few[stage].size() + 8) << named.name << ", stage " << stage;
    }
  }
}

}  // namespace
}  // namespace stepcast::parallel
