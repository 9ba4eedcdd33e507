#include <gtest/gtest.h>

#include "src/forecast/explanation.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::kNone;
using program::Opcode;

constexpr std::uint16_t kCompute = 0, kCommunication = 1;

// 0: forward kernel, 1: backward kernel, 2 and 3: collectives of one communicator, 4: optimizer
// kernel, 5: the compute stream waits, 6: the host waits, 7: a host task.
program::Program Sample() {
  program::Program program;
  program.step = {
      {.opcode = Opcode::kKernel, .stream = kCompute},
      {.opcode = Opcode::kKernel, .stream = kCompute},
      {.opcode = Opcode::kCollective, .stream = kCommunication, .operand = 0},
      {.opcode = Opcode::kCollective, .stream = kCommunication, .operand = 0},
      {.opcode = Opcode::kKernel, .stream = kCompute},
      {.opcode = Opcode::kWaitEvent, .stream = kCompute},
      {.opcode = Opcode::kHostWaitEvent},
      {.opcode = Opcode::kHostTask},
  };
  program.collectives = {{.communicator = 0}};
  return program;
}

program::OperationRecord Ran(Index instruction, std::int64_t issued, std::int64_t ready,
                             std::int64_t start, std::int64_t end) {
  return {.instruction = instruction,
          .issued = Picoseconds(issued),
          .ready = Picoseconds(ready),
          .start = Picoseconds(start),
          .end = Picoseconds(end)};
}

void ExpectPath(const std::vector<PathPart>& path, const std::vector<PathPart>& expected) {
  ASSERT_EQ(path.size(), expected.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    EXPECT_EQ(path[i].kind, expected[i].kind) << i;
    EXPECT_EQ(path[i].instruction, expected[i].instruction) << i;
    EXPECT_EQ(path[i].start, expected[i].start) << i;
    EXPECT_EQ(path[i].end, expected[i].end) << i;
  }
}

PathPart Part(PathPartKind kind, Index instruction, std::int64_t start, std::int64_t end) {
  return {kind, instruction, Picoseconds(start), Picoseconds(end)};
}

// Forward 0-10, backward 10-30. The first collective runs 12-35. The second is ready at 30, waits
// in its communicator's queue until 35 and runs to 60; the update waits for it and runs 60-65.
// Backward from 20 on is off the path, since the second collective waits for the first. The first
// was ready at 12, when the host had issued it.
TEST(CriticalPath, GoesThroughTheCommunicatorsQueue) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 0, 0, 10), Ran(1, 1, 10, 10, 30), Ran(2, 12, 12, 12, 35),
                         Ran(3, 13, 30, 35, 60), Ran(4, 14, 60, 60, 65)};
  timeline.waits = {{.instruction = 5, .start = Picoseconds(30), .end = Picoseconds(60)}};
  ExpectPath(
      CriticalPath(Sample(), timeline, Time(), Picoseconds(65)),
      {Part(PathPartKind::kHost, kNone, 0, 12), Part(PathPartKind::kOperation, 2, 12, 35),
       Part(PathPartKind::kOperation, 3, 35, 60), Part(PathPartKind::kOperation, 4, 60, 65)});
}

// The host waits for the forward (ends at 10), runs a task from 12 to 15 and issues the backward at
// 16, which starts at once.
TEST(CriticalPath, GoesThroughTheHost) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 0, 0, 10), Ran(7, 12, 12, 12, 15), Ran(1, 16, 16, 16, 30)};
  timeline.waits = {{.instruction = 6, .start = Picoseconds(2), .end = Picoseconds(10)}};
  ExpectPath(CriticalPath(Sample(), timeline, Time(), Picoseconds(30)),
             {Part(PathPartKind::kOperation, 0, 0, 10), Part(PathPartKind::kHost, kNone, 10, 12),
              Part(PathPartKind::kOperation, 7, 12, 15), Part(PathPartKind::kHost, kNone, 15, 16),
              Part(PathPartKind::kOperation, 1, 16, 30)});
}

// A collective is ready at 10 and starts at 25, though its communicator is free: another rank was
// late. Parts before the interval are cut off.
TEST(CriticalPath, NamesLatePartnersAndCutsAtTheBegin) {
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 0, 0, 10), Ran(2, 1, 10, 25, 40)};
  ExpectPath(CriticalPath(Sample(), timeline, Picoseconds(5), Picoseconds(40)),
             {Part(PathPartKind::kOperation, 0, 5, 10), Part(PathPartKind::kPartners, 2, 10, 25),
              Part(PathPartKind::kOperation, 2, 25, 40)});
}

TEST(CriticalPath, AddsUpWhateverTheTimelineShows) {
  EXPECT_EQ(CriticalPath(Sample(), {}, Time(), Picoseconds(7)).size(), 1u);
  program::Timeline timeline;
  timeline.operations = {Ran(0, 0, 3, 3, 5), Ran(1, 0, 9, 9, 12)};  // 5-9: nothing says why
  Time sum;
  for (const PathPart& part : CriticalPath(Sample(), timeline, Time(), Picoseconds(12))) {
    sum += part.end - part.start;
  }
  EXPECT_EQ(sum, Picoseconds(12));
}

}  // namespace
}  // namespace stepcast::forecast
