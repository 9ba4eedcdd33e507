#include "src/forecast/memory_timeline.h"

#include <gtest/gtest.h>

namespace stepcast::forecast {
namespace {

using program::Category;
using program::Opcode;

program::Instruction On(Opcode opcode, std::uint16_t stream, program::Index operand) {
  return {.opcode = opcode, .stream = stream, .operand = operand};
}

Bytes Of(const MemoryPeak& peak, Category category) {
  return peak.by_category[static_cast<std::size_t>(category)];
}

// Parameters (1000 B) from the prologue; in the step a gradient (600 B, 8 B padding) and, after its
// release, an activation (500 B).
program::Program Small() {
  program::Program program;
  program.streams = {{.name = "compute"}, {.name = "communication"}};
  program.buffers = {{.name = "parameters", .size = Bytes(1000), .category = Category::kParameter},
                     {.name = "gradient",
                      .size = Bytes(600),
                      .category = Category::kGradient,
                      .padding = Bytes(8)},
                     {.name = "activation", .size = Bytes(500), .category = Category::kActivation}};
  program.prologue = {On(Opcode::kAllocate, 0, 0)};
  program.step = {On(Opcode::kAllocate, 0, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2), On(Opcode::kRelease, 0, 2)};
  return program;
}

program::Timeline HostOrder(std::initializer_list<program::Index> instructions) {
  program::Timeline timeline;
  std::int64_t time = 0;
  for (const program::Index instruction : instructions) {
    timeline.memory.push_back({.instruction = instruction, .time = Microseconds(time++)});
  }
  timeline.step_ends = {Microseconds(100)};
  return timeline;
}

TEST(MemoryTimeline, ReleasesInHostOrderMakeRoom) {
  const MemoryPeak peak = PeakOf(Small(), HostOrder({0, 1, 2, 3}), GiB(1));
  EXPECT_EQ(peak.total, Bytes(1600));
  EXPECT_EQ(Of(peak, Category::kParameter), Bytes(1000));
  EXPECT_EQ(Of(peak, Category::kGradient), Bytes(600));
  EXPECT_EQ(Of(peak, Category::kActivation), Bytes(0));
  EXPECT_EQ(peak.padding, Bytes(8));
  EXPECT_EQ(peak.reserved, MiB(2));  // all in one small segment
  EXPECT_TRUE(peak.fits);
}

// 1000 B need a segment of 2 MiB whatever is left of it.
TEST(MemoryTimeline, SegmentsDecideWhatFits) {
  const MemoryPeak peak = PeakOf(Small(), HostOrder({0, 1, 2, 3}), MiB(1));
  EXPECT_FALSE(peak.fits);
  EXPECT_EQ(peak.reserved, MiB(2));
  EXPECT_EQ(peak.total, Bytes(1600));
}

// 30 MiB on one stream, released, then 40 MiB on another: 70 MiB are reserved where there is room,
// and 40 where the first segment must be given back.
TEST(MemoryTimeline, AFullDeviceGivesCachedSegmentsBack) {
  program::Program program;
  program.streams = {{"compute"}, {"side"}};
  program.buffers = {{.name = "a", .size = MiB(30)}, {.name = "b", .size = MiB(40)}};
  program.step = {On(Opcode::kAllocate, 0, 0), On(Opcode::kRelease, 0, 0),
                  On(Opcode::kAllocate, 1, 1), On(Opcode::kRelease, 1, 1)};
  const program::Timeline timeline = HostOrder({0, 1, 2, 3});
  const MemoryPeak roomy = PeakOf(program, timeline, MiB(70));
  EXPECT_EQ(roomy.reserved, MiB(70));
  EXPECT_EQ(roomy.flushes, 0);
  const MemoryPeak tight = PeakOf(program, timeline, MiB(69));
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.reserved, MiB(40));
  EXPECT_EQ(tight.flushes, 1);
  EXPECT_FALSE(PeakOf(program, timeline, MiB(39)).fits);
}

// The gradient is also used by a collective that ends at 50 us; recorded on its stream, its release
// at 3 us takes effect then, so the activation allocated at 4 us comes on top.
TEST(MemoryTimeline, ARecordedStreamDelaysTheRelease) {
  program::Program program = Small();
  program.collectives = {{.bytes = Bytes(600)}};
  program.uses = {{.buffer = 1, .write = true, .size = Bytes(600)}};
  program::Instruction collective = On(Opcode::kCollective, 1, 0);
  collective.use_count = 1;
  program.step = {On(Opcode::kAllocate, 0, 1),     collective,
                  On(Opcode::kRecordStream, 1, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2),     On(Opcode::kRelease, 0, 2)};
  program::Timeline timeline;
  timeline.memory = {{.instruction = 0, .time = Microseconds(0)},
                     {.instruction = 3, .time = Microseconds(3)},
                     {.instruction = 4, .time = Microseconds(4)},
                     {.instruction = 5, .time = Microseconds(5)}};
  timeline.operations = {{.instruction = 1, .start = Microseconds(1), .end = Microseconds(50)}};
  timeline.step_ends = {Microseconds(50)};
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).total, Bytes(1000 + 600 + 500));

  timeline.operations.front().end = Microseconds(4);  // just in time
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).total, Bytes(1600));
}

// As above with 30 and 40 MiB on a device of 50: the allocator waits until 50 us, gets the
// gradient's segment back and takes another one.
TEST(MemoryTimeline, AFullDeviceWaitsForOtherStreams) {
  program::Program program = Small();
  program.buffers[1].size = MiB(30);
  program.buffers[1].padding = Bytes(0);
  program.buffers[2].size = MiB(40);
  program.collectives = {{.bytes = MiB(30)}};
  program.uses = {{.buffer = 1, .write = true, .size = MiB(30)}};
  program::Instruction collective = On(Opcode::kCollective, 1, 0);
  collective.use_count = 1;
  program.prologue.clear();
  program.step = {On(Opcode::kAllocate, 0, 1),     collective,
                  On(Opcode::kRecordStream, 1, 1), On(Opcode::kRelease, 0, 1),
                  On(Opcode::kAllocate, 0, 2),     On(Opcode::kRelease, 0, 2)};
  program::Timeline timeline;
  timeline.memory = {{.instruction = 0, .time = Microseconds(0)},
                     {.instruction = 3, .time = Microseconds(3)},
                     {.instruction = 4, .time = Microseconds(4)},
                     {.instruction = 5, .time = Microseconds(5)}};
  timeline.operations = {{.instruction = 1, .start = Microseconds(1), .end = Microseconds(50)}};
  timeline.step_ends = {Microseconds(50)};
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).reserved, MiB(70));
  const MemoryPeak tight = PeakOf(program, timeline, MiB(50));
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.reserved, MiB(40));
  EXPECT_EQ(tight.total, MiB(40));
  EXPECT_EQ(tight.flushes, 1);
  EXPECT_FALSE(PeakOf(program, timeline, MiB(39)).fits);
}

// 30 MiB freed, then 40: one range grows by what is missing, 2 x 20 MiB in all.
TEST(MemoryTimeline, ExpandableSegmentsGrow) {
  program::Program program;
  program.streams = {{"compute"}};
  program.buffers = {{.name = "a", .size = MiB(30)}, {.name = "b", .size = MiB(40)}};
  program.step = {On(Opcode::kAllocate, 0, 0), On(Opcode::kRelease, 0, 0),
                  On(Opcode::kAllocate, 0, 1), On(Opcode::kRelease, 0, 1)};
  const program::Timeline timeline = HostOrder({0, 1, 2, 3});
  EXPECT_EQ(PeakOf(program, timeline, GiB(1)).reserved, MiB(70));
  EXPECT_EQ(PeakOf(program, timeline, GiB(1), /*expandable=*/true).reserved, MiB(40));
}

}  // namespace
}  // namespace stepcast::forecast
